"""Maximum inner product search with one interface: here exactly (torch, any device), approximately in `approximate.py`.

    search(queries_BD, k) → rows_BK (int64), scores_BK (float32), highest first

Ties are ordered by ascending row. Legend: B queries, N vectors, D dimension, K results, M allowed rows, C candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from realm_core.tensors import fill

if TYPE_CHECKING:
    from realm_core.index.allowed_rows import AllowedRows

# Scores of a slice are [B, slice] float32: with 256 Ki rows, a batch of 64 questions takes 64 MiB.
_SLICE_ROWS = 1 << 18
_MAX_FLOAT32_BYTES = 8 << 30
# Of products in float16: rows that are scored again for each wanted row, and at least.
_CANDIDATES, _LEAST_CANDIDATES = 4, 100


class ExactSearch:
    """Exhaustive search: each vector is scored, and the scores that are returned are those of float32.

    vectors_ND: [N, D]. dtype: in which they are kept and multiplied; None: float32 on the CPU, and on a GPU if that
    takes at most 8 GiB, else their own. In float32 recall is 1. In float16 a score near 20 is rounded to steps of
    0.016, so C = max(4k, 100) candidates are scored again in float32. If no product is off by more than ε, one of the k
    best is missed only where at least C − k + 1 other vectors score less than 2ε below it.
    """

    def __init__(
        self, vectors_ND: Tensor, device: torch.device | None = None, *, dtype: torch.dtype | None = None
    ) -> None:
        self.device = device or torch.device("cpu")
        if dtype is None:
            fits = self.device.type == "cpu" or vectors_ND.numel() * 4 <= _MAX_FLOAT32_BYTES
            dtype = torch.float32 if fits else vectors_ND.dtype
        self._vectors_ND = torch.empty(vectors_ND.shape, device=self.device, dtype=dtype)
        fill(self._vectors_ND, vectors_ND)

    def __len__(self) -> int:
        return self._vectors_ND.shape[0]

    def search(
        self, queries_BD: Tensor, k: int, allowed: AllowedRows | None = None, *, added_BN: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Rows and scores [B, min(k, N)] on the CPU, highest first; min(k, M) if only some are allowed.

        added_BN: to be added to the inner products.
        """
        if self._vectors_ND.dtype == torch.float32:
            return self._best(queries_BD, k, allowed, added_BN)
        rows_BC, _ = self._best(queries_BD, max(_CANDIDATES * k, _LEAST_CANDIDATES), allowed, added_BN)
        vectors_BCD = self._vectors_ND[rows_BC.to(self.device)].float()
        queries_BD1 = queries_BD.to(vectors_BCD).unsqueeze(2)
        scores_BC = (vectors_BCD @ queries_BD1).squeeze(2).cpu()
        if added_BN is not None:
            scores_BC += added_BN.gather(1, rows_BC.to(added_BN.device)).to(scores_BC)
        return merged(rows_BC, scores_BC, k)

    def _best(
        self, queries_BD: Tensor, k: int, allowed: AllowedRows | None, added_BN: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As `search`, by products in the type in which the vectors are kept."""
        mask_N = rows_M = None
        if allowed is not None:
            mask_N, rows_M, k = allowed.mask_N, allowed.rows_M, min(k, allowed.count)
        queries_BD = queries_BD.to(self._vectors_ND)
        best_rows, best_scores = torch.empty(len(queries_BD), 0).long(), torch.empty(len(queries_BD), 0)
        for start in range(0, len(self) if rows_M is None else len(rows_M), _SLICE_ROWS):
            part = slice(start, start + _SLICE_ROWS)
            vectors_SD = self._vectors_ND[part] if rows_M is None else self._vectors_ND[rows_M[part]]
            scores_BS = (queries_BD @ vectors_SD.T).float()
            if added_BN is not None:
                own_BS = added_BN[:, part] if rows_M is None else added_BN[:, rows_M[part].to(added_BN.device)]
                scores_BS += own_BS.to(scores_BS.device)
            if mask_N is not None and rows_M is None:
                scores_BS.masked_fill_(~mask_N[part], -math.inf)
            scores, places = stable_top(scores_BS, k)
            rows = places + start if rows_M is None else rows_M[part][places]
            best_scores, order = stable_top(torch.cat([best_scores, scores.cpu()], dim=1), k)
            best_rows = torch.cat([best_rows, rows.cpu()], dim=1).gather(1, order)
        return best_rows, best_scores


def stable_top(scores_BN: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(scores, positions) of the k highest of each row; ties by ascending position."""
    scores_BK, positions_BK = torch.topk(scores_BN, min(k, scores_BN.shape[1]), dim=1)
    # topk returns arbitrary positions among ties with the k-th score; rows with such ties are selected again.
    reaching_BN = scores_BN >= scores_BK[:, -1:]
    for row in (reaching_BN.sum(dim=1) > scores_BK.shape[1]).nonzero().flatten().tolist():
        candidates = reaching_BN[row].nonzero().flatten()
        order = torch.argsort(scores_BN[row, candidates], descending=True, stable=True)[: scores_BK.shape[1]]
        positions_BK[row], scores_BK[row] = candidates[order], scores_BN[row, candidates[order]]
    order = torch.argsort(positions_BK, dim=1, stable=True)
    scores_BK, positions_BK = scores_BK.gather(1, order), positions_BK.gather(1, order)
    order = torch.argsort(scores_BK, dim=1, descending=True, stable=True)
    return scores_BK.gather(1, order), positions_BK.gather(1, order)


def merged(rows_BM: Tensor, scores_BM: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best of some results in any order; of equal scores the lower row comes first."""
    order = torch.argsort(rows_BM, dim=1, stable=True)
    rows_BM, scores_BM = rows_BM.gather(1, order), scores_BM.gather(1, order)
    scores_BK, order = stable_top(scores_BM, k)
    return rows_BM.gather(1, order), scores_BK


def search_without(
    search: Callable[[Tensor, int], tuple[Tensor, Tensor]],
    queries_BD: Tensor,
    ks: Sequence[int],
    excluded_rows: Sequence[Collection[int]],
) -> list[tuple[list[int], list[float]]]:
    """For each query the k best rows that are not excluded, with their scores, in a single search."""
    most = max(k + len(excluded) for k, excluded in zip(ks, excluded_rows, strict=True))
    rows_BK, scores_BK = search(queries_BD, most)
    found = []
    for rows, scores, k, excluded in zip(rows_BK.tolist(), scores_BK.tolist(), ks, excluded_rows, strict=True):
        kept = [pair for pair in zip(rows, scores, strict=True) if pair[0] not in excluded][:k]
        found.append(([row for row, _ in kept], [score for _, score in kept]))
    return found
