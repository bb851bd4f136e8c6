"""One contract for whatever searches a base: naive search, in all rows and in those of a mask, is the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import torch

from realm_core.index import allowed_rows
from realm_core.index import search as exact_search
from realm_core.index.allowed_rows import AllowedRows
from realm_core.index.choice import SearchKind
from realm_core.living import search as living_search
from realm_core.living.search import BaseSearch, open_base
from tests.core.index.test_approximate import generation
from tests.core.living.building import DIMENSION, queries
from tests.milvus import running_milvus

CPU = torch.device("cpu")
ROWS = 500
# The second as on a GPU whose memory does not take them in float32.
WAYS = [
    "exact",
    "exact, in float16",
    *(kind for kind in get_args(SearchKind) if kind not in ("auto", "exact")),
    "milvus",
]


@pytest.fixture(scope="module")
def vectors_ND() -> torch.Tensor:
    """Whole numbers, so that every score is exact and many are equal."""
    return torch.randint(-2, 3, (ROWS, DIMENSION), generator=torch.Generator().manual_seed(1)).half()


@pytest.fixture(scope="module", params=WAYS)
def base(
    request: pytest.FixtureRequest, vectors_ND: torch.Tensor, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BaseSearch]:
    if request.param == "exact, in float16":
        yield exact_search.ExactSearch(vectors_ND, dtype=torch.float16)
        return
    folder = generation(tmp_path_factory.mktemp("base") / "g", vectors_ND, 200)
    if request.param != "milvus":
        yield open_base(folder, CPU, request.param)
        return
    with running_milvus() as milvus:
        yield open_base(folder, CPU, milvus.server)


def naive(scores_N: torch.Tensor, allowed: list[int], k: int) -> list[int]:
    return sorted(allowed, key=lambda row: (-scores_N[row].item(), row))[:k]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.998, 1.0])
@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"_SLICE_ROWS": 64},
        {"_FEW_ROWS": 0},
        {"_FEW_ROWS": 0, "_NAMED_ROWS": 0},
        {"_FEW_ROWS": 0, "_NAMED_ROWS": 0, "_RUN_ENDS": 0},
        {"_FEW_ROWS": 0, "MOST_FOUND": 5},
    ],
    ids=["as it is", "in slices", "many rows are allowed", "in runs", "too many to name", "too few are found"],
)
def test_the_best_allowed_rows_are_found(
    base: BaseSearch, vectors_ND: torch.Tensor, monkeypatch: pytest.MonkeyPatch, share: float, limits: dict[str, int]
) -> None:
    for name, limit in {"_FEW_ROWS": 20, **limits}.items():
        [module] = (module for module in (exact_search, allowed_rows, living_search) if hasattr(module, name))
        monkeypatch.setattr(module, name, limit)
    mask_N = torch.rand(ROWS, generator=torch.Generator().manual_seed(2)) < share
    asked, allowed, rows_M = queries(3), AllowedRows(mask_N, CPU), mask_N.nonzero().flatten().tolist()
    for k in (1, 7, ROWS + 100):
        rows_BK, scores_BK = base.search(asked, k, allowed)
        assert rows_BK.shape == scores_BK.shape == (3, min(k, len(rows_M)))
        for query, rows, scores in zip(asked, rows_BK.tolist(), scores_BK.tolist(), strict=True):
            exact_N = vectors_ND.float() @ query
            assert scores == exact_N[rows].tolist() == exact_N[naive(exact_N, rows_M, k)].tolist()
            if isinstance(base, exact_search.ExactSearch):  # another may find any of those with the last score
                assert rows == naive(exact_N, rows_M, k)
            assert rows == naive(exact_N, rows, k) and len(set(rows)) == len(rows) and set(rows) <= set(rows_M)


def test_nobody_asks(base: BaseSearch) -> None:
    rows_BK, scores_BK = base.search(queries(0), 5, AllowedRows(torch.ones(ROWS, dtype=torch.bool), CPU))
    assert len(rows_BK) == len(scores_BK) == 0


def test_all_rows_at_once(base: BaseSearch, vectors_ND: torch.Tensor) -> None:
    _, scores_BK = base.search(queries(2), 9, AllowedRows(torch.ones(ROWS, dtype=torch.bool), CPU))
    assert scores_BK.tolist() == (queries(2) @ vectors_ND.float().T).topk(9).values.tolist()


def test_runs_of_rows_are_named_by_their_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a collection of millions, which is ingested as one."""
    monkeypatch.setattr(allowed_rows, "_NAMED_ROWS", 0)
    mask_N = torch.zeros(ROWS, dtype=torch.bool)
    mask_N[3:90] = mask_N[200:ROWS] = True
    assert AllowedRows(mask_N, CPU).expression == "(row >= 3 and row < 90) or (row >= 200 and row < 500)"


@pytest.mark.parametrize(("free_bytes", "exact"), [(4 * ROWS * DIMENSION, True), (4 * ROWS * DIMENSION - 1, False)])
def test_a_gpu_with_room_for_the_vectors_searches_all(
    vectors_ND: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int, exact: bool
) -> None:
    """Although the index has lists; half of the free memory is for the vectors, in float16."""
    folder = generation(tmp_path / "g", vectors_ND, 200, wanted="ivf")
    monkeypatch.setattr(living_search, "free_bytes", lambda device: free_bytes)
    assert isinstance(open_base(folder, CPU), exact_search.ExactSearch) is exact
    assert not isinstance(open_base(folder, CPU, "ivf"), exact_search.ExactSearch)
    monkeypatch.setattr(living_search, "machine_memory_bytes", lambda: free_bytes - exact)  # which they pass through
    assert not isinstance(open_base(folder, CPU), exact_search.ExactSearch)
