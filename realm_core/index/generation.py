"""An index generation: the vectors of every block of one snapshot under one block embedder; immutable once published.

manifest.json               model, snapshot, number of rows, the shards with their checksums
vectors-00000.safetensors   `vectors` [rows of the shard, D], float16, or in six bits (`quantised.py`)
…
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from realm_core.errors import RealmError, quoted
from realm_core.index.manifest import MANIFEST_FILE, read_manifest, verified_file
from realm_core.index.quantised import dequantise
from realm_core.tensors import fill, load_tensors


@dataclass(frozen=True)
class Generation:
    """A published generation with its vectors in memory.

    vectors_ND: [N blocks, D] float16, row i is the snapshot's block i.
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
        except (RuntimeError, OverflowError):  # raised by torch for an invalid or too large shape
            raise RealmError(f"{folder / MANIFEST_FILE} declares more vectors than fit into memory.") from None

    @classmethod
    def _read(cls, folder: Path, manifest: dict[str, Any]) -> Generation:
        vectors_ND = torch.empty(manifest["rows"], manifest["dim"], dtype=torch.float16)
        row = 0
        for shard in manifest["shards"]:
            path = verified_file(folder, shard)
            if shard["start"] != row or shard["stop"] > manifest["rows"]:
                raise RealmError(f"{folder / MANIFEST_FILE}: the shards are not contiguous at row {row}.")
            fill(vectors_ND[row : shard["stop"]], read_vectors(path, shard["stop"] - row, manifest["dim"]))
            row = shard["stop"]
        if row != manifest["rows"]:
            raise RealmError(f"{folder / MANIFEST_FILE}: the shards have {row} rows, not {manifest['rows']}.")
        return cls(manifest["generation"], manifest, vectors_ND)


def read_vectors(path: Path, rows: int, dimension: int) -> Tensor:
    """Vectors [rows, dimension] of one shard, dequantised; `RealmError` if type or shape differ."""
    tensors = load_tensors(path)
    vectors_RD = tensors.get("vectors")
    if set(tensors) == {"packed", "scales"}:
        vectors_RD = dequantise(**tensors, dimension=dimension)
    elif set(tensors) == {"multiples", "scales"}:  # in eight bits, as they were shipped on 30 November 2026 alone
        vectors_RD = (tensors["multiples"].float() * tensors["scales"].float()).half()
    if vectors_RD is None:
        raise RealmError(f"{path} contains no vectors.")
    if vectors_RD.dtype != torch.float16:
        raise RealmError(f"{path} contains vectors of {vectors_RD.dtype}, not of torch.float16.")
    if tuple(vectors_RD.shape) != (rows, dimension):
        raise RealmError(f"{path} contains vectors of shape {tuple(vectors_RD.shape)}, not {(rows, dimension)}.")
    return vectors_RD
