"""An index generation: the vectors of every block of one snapshot under one block embedder; immutable once published.

manifest.json               what it is of, how many rows, the shards with their checksums
vectors-00000.safetensors   `vectors` [rows of the shard, D], float16
…
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from realm_core.errors import RealmError, quoted
from realm_core.index.manifest import MANIFEST_FILE, read_manifest, verified_shard
from realm_core.tensors import fill, load_tensors


@dataclass(frozen=True)
class Generation:
    """A published generation, its vectors in memory.

    vectors_ND: [N blocks, D] float16, row i for the snapshot's block i.
    """

    name: str
    manifest: dict[str, Any]
    vectors_ND: Tensor

    @classmethod
    def open(cls, folder: Path) -> Generation:
        """Read and check a generation; `RealmError` names the file that is missing or damaged."""
        manifest = read_manifest(folder)
        try:
            return cls._read(folder, manifest)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RealmError(f"{folder / MANIFEST_FILE} does not describe an index: {quoted(error)}.") from None
        except (RuntimeError, OverflowError):  # torch's, of a shape that is none or that no memory holds
            raise RealmError(f"{folder / MANIFEST_FILE} asks for more vectors than can be held.") from None

    @classmethod
    def _read(cls, folder: Path, manifest: dict[str, Any]) -> Generation:
        vectors_ND = torch.empty(manifest["rows"], manifest["dim"], dtype=torch.float16)
        row = 0
        for shard in manifest["shards"]:
            path = verified_shard(folder, shard)
            if shard["start"] != row or shard["stop"] > manifest["rows"]:
                raise RealmError(f"{folder / MANIFEST_FILE}: the shards do not follow one another at row {row}.")
            fill(vectors_ND[row : shard["stop"]], read_shard(path, shard["stop"] - row, manifest["dim"]))
            row = shard["stop"]
        if row != manifest["rows"]:
            raise RealmError(f"{folder / MANIFEST_FILE}: the shards hold {row} rows, not {manifest['rows']}.")
        return cls(manifest["generation"], manifest, vectors_ND)


def read_shard(path: Path, rows: int, dimension: int) -> Tensor:
    """Vectors [rows, dimension] of one shard; `RealmError` when the file is not that."""
    vectors_RD = load_tensors(path).get("vectors")
    if vectors_RD is None:
        raise RealmError(f"{path} holds no vectors.")
    if vectors_RD.dtype != torch.float16:
        raise RealmError(f"{path} holds vectors of {vectors_RD.dtype}, not of torch.float16.")
    if tuple(vectors_RD.shape) != (rows, dimension):
        raise RealmError(f"{path} holds vectors of shape {tuple(vectors_RD.shape)}, not {(rows, dimension)}.")
    return vectors_RD
