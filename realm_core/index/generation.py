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
from realm_core.files import checksum, plain_name, read_json
from realm_core.tensors import fill, load_tensors

FORMAT = 1


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
            raise RealmError(f"{folder / 'manifest.json'} does not describe an index: {quoted(error)}.") from None
        except (RuntimeError, OverflowError):  # torch's, of a shape that is none or that no memory holds
            raise RealmError(f"{folder / 'manifest.json'} asks for more vectors than can be held.") from None

    @classmethod
    def _read(cls, folder: Path, manifest: dict[str, Any]) -> Generation:
        vectors_ND = torch.empty(manifest["rows"], manifest["dim"], dtype=torch.float16)
        row = 0
        for shard in manifest["shards"]:
            path = folder / plain_name(shard["file"])
            if not path.exists():
                raise RealmError(f"{path} does not exist: the index is incomplete; build it again.")
            if checksum(path) != shard["sha256"]:
                raise RealmError(f"{path} is damaged: its checksum is not the manifest's; build the index again.")
            if shard["start"] != row or shard["stop"] > manifest["rows"]:
                raise RealmError(f"{folder / 'manifest.json'}: the shards do not follow one another at row {row}.")
            fill(vectors_ND[row : shard["stop"]], read_shard(path, shard["stop"] - row, manifest["dim"]))
            row = shard["stop"]
        if row != manifest["rows"]:
            raise RealmError(f"{folder / 'manifest.json'}: the shards hold {row} rows, not {manifest['rows']}.")
        return cls(manifest["generation"], manifest, vectors_ND)


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a generation says of itself, unchecked but for its format; `RealmError` when it is of another, or none."""
    manifest = read_json(folder / "manifest.json")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise RealmError(f"{folder / 'manifest.json'} is not an index of format {FORMAT}.")
    return manifest


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
