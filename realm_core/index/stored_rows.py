"""Vectors of a generation, read by row from its files.

Read, not mapped: pages of a mapping count as the process's memory, and a kernel that maps around a page makes some rows
of a large index all of it. The files are opened once, so that they can be read after they were removed.

Legend: B queries, N rows, M wanted rows, D dimension, K results.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from realm_core.arrays import Rows
from realm_core.errors import RealmError
from realm_core.index.generation import read_vectors
from realm_core.index.search import merged

_BYTES = 2  # of a number, float16
_SLICE_ROWS = 1 << 18  # scored at once: 256 MB at a dimension of 256
_HEADER = 8  # bytes of a safetensors file that tell the length of its description


class StoredRows:
    """shards: paths, and the rows in each, in order."""

    def __init__(self, shards: Sequence[tuple[Path, int]], dimension: int) -> None:
        self._row_bytes = dimension * _BYTES
        self._dimension = dimension
        self._files: list[int] = []
        self._close = weakref.finalize(self, _close, self._files)
        self._offsets = []
        for path, rows in shards:
            read_vectors(path, rows, dimension)  # checks type and shape; of a mapping, so nothing is read
            try:
                self._files.append(os.open(path, os.O_RDONLY))
            except OSError as error:
                raise RealmError(
                    f"{path} cannot be opened: {error.strerror}. An index that is searched approximately needs an open "
                    f"file for each of its {len(shards):,} shards (ulimit -n); --shard-rows makes larger ones."
                ) from None
            length = int.from_bytes(os.pread(self._files[-1], _HEADER, 0), "little")
            about = json.loads(os.pread(self._files[-1], length, _HEADER))
            if "vectors" not in about:
                raise RealmError(f"{path} is quantised, as it comes with a model; build an index of it.")
            self._offsets.append(_HEADER + length + about["vectors"]["data_offsets"][0])
        self._starts = np.cumsum([0, *(rows for _, rows in shards)])

    @classmethod
    def of(cls, folder: Path, manifest: Mapping[str, Any]) -> StoredRows:
        """The rows of a generation, by its manifest; its files have been verified."""
        shards = [(folder / shard["file"], shard["stop"] - shard["start"]) for shard in manifest["shards"]]
        return cls(shards, manifest["dim"])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def at(self, rows_M: Rows) -> Tensor:
        """Vectors [M, D], float32."""
        read_MD = np.empty((len(rows_M), self._dimension), np.float16)
        shards_M = np.searchsorted(self._starts, rows_M, side="right") - 1
        offsets_M = (rows_M - self._starts[shards_M]) * self._row_bytes
        if len(rows_M):
            pieces = memoryview(read_MD.data).cast("B")
            for place, (shard, offset) in enumerate(zip(shards_M.tolist(), offsets_M.tolist(), strict=True)):
                into = pieces[place * self._row_bytes : (place + 1) * self._row_bytes]
                if os.preadv(self._files[shard], [into], self._offsets[shard] + offset) != self._row_bytes:
                    raise RealmError("A file of the index is shorter than it was; deploy another index.")
        return torch.from_numpy(read_MD).float()

    def nearest(self, queries_BD: Tensor, k: int, rows_M: Tensor) -> tuple[Tensor, Tensor]:
        """Rows and scores [B, min(k, M)] on the CPU: the best of some rows, which are all read and scored."""
        queries_BD, rows_M = queries_BD.float().cpu(), rows_M.cpu()
        best_rows, best_scores = torch.empty(len(queries_BD), 0).long(), torch.empty(len(queries_BD), 0)
        for rows_S in rows_M.split(_SLICE_ROWS):
            rows_BM = torch.cat([best_rows, rows_S.expand(len(queries_BD), -1)], dim=1)
            scores_BM = torch.cat([best_scores, queries_BD @ self.at(rows_S.numpy()).T], dim=1)
            best_rows, best_scores = merged(rows_BM, scores_BM, k)
        return best_rows, best_scores


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)
