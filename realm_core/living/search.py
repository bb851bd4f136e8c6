"""Exact and approximate search among the rows of a base that a mask allows.

Legend: B queries, N vectors, M allowed ones, D dimension, K results.
"""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from realm_core.index.approximate import ApproximateSearch, RowFilter, open_approximate
from realm_core.index.choice import SearchKind
from realm_core.index.generation import Generation
from realm_core.index.search import stable_top
from realm_core.tensors import fill

_SLICE_ROWS = 1 << 18  # scores of one slice are [B, slice] float32
_PRECISE_BYTES = 8 << 30  # vectors are kept in float32 up to this size, as in `ExactSearch`
_FEW = 8  # if fewer than one row in so many is allowed, only the allowed ones are scored
_FEW_ROWS = 10_000  # up to so many are searched exactly, also in approximate search


class Allowed:
    """The rows of a base that may be found. mask_N: bool, on the CPU."""

    def __init__(self, mask_N: Tensor, device: torch.device) -> None:
        self.count = int(mask_N.sum())
        self.mask_N = None if self.count == len(mask_N) else mask_N.to(device)
        few = self.count * _FEW < len(mask_N) or self.count <= _FEW_ROWS
        self.rows_M = mask_N.nonzero().flatten().to(device) if few and self.mask_N is not None else None

    @cached_property
    def row_filter(self) -> RowFilter | None:
        """The mask as approximate search takes it; None where every row is allowed."""
        return None if self.mask_N is None else RowFilter.of(self.mask_N.cpu())


class BaseSearch(Protocol):
    """The vectors of a base; what every state with this base shares."""

    device: torch.device

    def __len__(self) -> int: ...

    def search(self, queries_BD: Tensor, k: int, allowed: Allowed) -> tuple[Tensor, Tensor]:
        """Rows and scores [B, min(k, M)] of the best allowed rows, on the CPU; of equal scores the lower row first."""
        ...


def open_base(folder: Path, device: torch.device, wanted: SearchKind = "auto") -> BaseSearch:
    """The search of a generation, whose files are verified. wanted: as for `open_approximate`."""
    approximate = open_approximate(folder, wanted)
    if approximate is None:
        return ExactBase(Generation.open(folder).vectors_ND, device)
    return ApproximateBase(approximate)


class ExactBase:
    """Vectors in memory, each of which is scored."""

    def __init__(self, vectors_ND: Tensor, device: torch.device) -> None:
        self.device = device
        precise = device.type == "cpu" or vectors_ND.numel() * 4 <= _PRECISE_BYTES
        dtype = torch.float32 if precise else vectors_ND.dtype
        self._vectors_ND = torch.empty(vectors_ND.shape, device=device, dtype=dtype)
        fill(self._vectors_ND, vectors_ND)

    def __len__(self) -> int:
        return self._vectors_ND.shape[0]

    def search(self, queries_BD: Tensor, k: int, allowed: Allowed) -> tuple[Tensor, Tensor]:
        """As `BaseSearch` says."""
        k = min(k, allowed.count)
        if k == 0:
            return _nothing(queries_BD)
        rows_M = allowed.rows_M
        best_rows, best_scores = _nothing(queries_BD)
        for start in range(0, len(self) if rows_M is None else len(rows_M), _SLICE_ROWS):
            part = slice(start, start + _SLICE_ROWS)
            vectors_SD = self._vectors_ND[part] if rows_M is None else self._vectors_ND[rows_M[part]]
            scores_BS = (queries_BD.to(vectors_SD) @ vectors_SD.T).float()
            if rows_M is None and allowed.mask_N is not None:
                scores_BS.masked_fill_(~allowed.mask_N[part], -math.inf)
            scores, places = stable_top(scores_BS, k)
            rows = places + start if rows_M is None else rows_M[part][places]
            best_scores, order = stable_top(torch.cat([best_scores, scores.cpu()], dim=1), k)
            best_rows = torch.cat([best_rows, rows.cpu()], dim=1).gather(1, order)
        return best_rows, best_scores


class ApproximateBase:
    """Vectors on the disk beside their stored index, which is asked for allowed rows alone."""

    def __init__(self, search: ApproximateSearch) -> None:
        self.device = torch.device("cpu")
        self._search = search

    def __len__(self) -> int:
        return len(self._search)

    def search(self, queries_BD: Tensor, k: int, allowed: Allowed) -> tuple[Tensor, Tensor]:
        """As `BaseSearch` says, of the rows that are found."""
        if allowed.count == 0:
            return _nothing(queries_BD)
        if allowed.rows_M is not None and allowed.count <= _FEW_ROWS:
            return self._search.exactly(queries_BD, min(k, allowed.count), allowed.rows_M)
        return self._search.search(queries_BD, k, allowed.row_filter)


def _nothing(queries_BD: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty(len(queries_BD), 0).long(), torch.empty(len(queries_BD), 0)
