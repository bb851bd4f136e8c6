"""Exact and approximate search among the rows of a base that a mask allows.

Legend: B queries, N vectors, M allowed ones, D dimension, K results.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from realm_core.index.search import Search, stable_top
from realm_core.tensors import fill

# Creates an approximate search of the vectors [N, D]; for example `FaissSearch`.
Approximate = Callable[[Tensor], Search]

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


class BaseSearch:
    """The vectors of a base, in memory, shared by all states with this base."""

    def __init__(self, vectors_ND: Tensor, device: torch.device, approximate: Approximate | None = None) -> None:
        self.device = device
        self._approximate = None if approximate is None else approximate(vectors_ND)
        # Beside an approximate search few rows are scored exactly; these are converted one by one.
        precise = approximate is None and (device.type == "cpu" or vectors_ND.numel() * 4 <= _PRECISE_BYTES)
        dtype = torch.float32 if precise else vectors_ND.dtype
        self._vectors_ND = torch.empty(vectors_ND.shape, device=device, dtype=dtype)
        fill(self._vectors_ND, vectors_ND)

    def __len__(self) -> int:
        return self._vectors_ND.shape[0]

    def search(self, queries_BD: Tensor, k: int, allowed: Allowed) -> tuple[Tensor, Tensor]:
        """Rows and scores [B, min(k, M)] of the best allowed rows, on the CPU; of equal scores the lower row first."""
        k = min(k, allowed.count)
        if k == 0:
            return torch.empty(len(queries_BD), 0).long(), torch.empty(len(queries_BD), 0)
        if self._approximate is not None and (allowed.mask_N is None or allowed.rows_M is None):
            return self._approximately(self._approximate, queries_BD, k, allowed)
        return self._exactly(queries_BD, k, allowed)

    def _exactly(self, queries_BD: Tensor, k: int, allowed: Allowed) -> tuple[Tensor, Tensor]:
        """Scores every allowed row."""
        rows_M = allowed.rows_M
        best_rows, best_scores = torch.empty(len(queries_BD), 0).long(), torch.empty(len(queries_BD), 0)
        for start in range(0, len(self) if rows_M is None else len(rows_M), _SLICE_ROWS):
            part = slice(start, start + _SLICE_ROWS)
            vectors_SD = self._vectors_ND[part] if rows_M is None else self._vectors_ND[rows_M[part]]
            if self.device.type == "cpu":
                vectors_SD = vectors_SD.float()
            scores_BS = (queries_BD.to(vectors_SD) @ vectors_SD.T).float()
            if rows_M is None and allowed.mask_N is not None:
                scores_BS.masked_fill_(~allowed.mask_N[part], -math.inf)
            scores, places = stable_top(scores_BS, k)
            rows = places + start if rows_M is None else rows_M[part][places]
            best_scores, order = stable_top(torch.cat([best_scores, scores.cpu()], dim=1), k)
            best_rows = torch.cat([best_rows, rows.cpu()], dim=1).gather(1, order)
        return best_rows, best_scores

    def _approximately(self, search: Search, queries_BD: Tensor, k: int, allowed: Allowed) -> tuple[Tensor, Tensor]:
        """Retrieves more and more until k allowed rows are found; questions without enough are searched exactly."""
        fetched = min(len(self), k if allowed.mask_N is None else k + math.ceil(k * len(self) / allowed.count))
        while True:
            rows, scores = search.search(queries_BD, fetched)
            found = rows >= 0
            if allowed.mask_N is not None:
                found &= allowed.mask_N.cpu()[rows.clamp(min=0)]
            enough = found.sum(dim=1) >= k
            if enough.all() or fetched * 2 > len(self):
                break
            fetched *= 2
        best_rows, best_scores = torch.empty(len(queries_BD), k).long(), torch.empty(len(queries_BD), k)
        if enough.any():
            scores = scores.masked_fill(~found, -math.inf)[enough]
            best_rows[enough], best_scores[enough] = merged(rows[enough], scores, k)
        if not enough.all():
            best_rows[~enough], best_scores[~enough] = self._exactly(queries_BD[~enough], k, allowed)
        return best_rows, best_scores


def merged(rows_BM: Tensor, scores_BM: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best of results in any order; of equal scores the lower row comes first."""
    order = torch.argsort(rows_BM, dim=1, stable=True)
    rows_BM, scores_BM = rows_BM.gather(1, order), scores_BM.gather(1, order)
    scores_BK, order = stable_top(scores_BM, k)
    return rows_BM.gather(1, order), scores_BK
