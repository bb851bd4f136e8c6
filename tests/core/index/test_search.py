"""Exact search against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realm_core.index import search as search_module
from realm_core.index.search import ExactSearch, search_without, stable_top


def vectors(rows: int, dimension: int = 8, *, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, dimension, generator=torch.Generator().manual_seed(seed))


def naive(vectors_ND: torch.Tensor, queries_BD: torch.Tensor, k: int) -> list[list[int]]:
    """Rows by descending score, ties by ascending row."""
    scores_BN = queries_BD.double().numpy() @ vectors_ND.double().numpy().T
    return [np.lexsort((np.arange(len(row)), -row))[:k].tolist() for row in scores_BN]


@settings(max_examples=50)
@given(
    rows=st.integers(1, 60), k=st.integers(1, 80), slice_rows=st.sampled_from([1, 3, 7, 1 << 18]), whole=st.booleans()
)
def test_exact_search_is_every_score_sorted(rows: int, k: int, slice_rows: int, whole: bool) -> None:
    base, queries = vectors(rows), vectors(3, seed=1)
    if whole:  # whole numbers of a small range: many scores are equal
        base, queries = base.round().clamp(-1, 1), queries.round().clamp(-1, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "_SLICE_ROWS", slice_rows)
        found, scores = ExactSearch(base).search(queries, k)
    wanted = naive(base, queries, k)
    assert found.shape == scores.shape == (3, min(k, rows))
    torch.testing.assert_close(scores, (queries @ base.T).gather(1, found))
    assert (scores.diff(dim=1) <= 0).all()
    assert found.tolist() == wanted


def test_among_equals_the_lower_row_comes_first() -> None:
    found, _ = ExactSearch(torch.tensor([[1.0], [2.0], [1.0], [2.0], [0.0]])).search(torch.ones(1, 1), 5)
    assert found.tolist() == [[1, 3, 0, 2, 4]]


@given(scores=st.lists(st.integers(0, 3), min_size=1, max_size=30), k=st.integers(1, 40))
def test_of_equals_at_the_edge_the_lower_rows_are_taken(scores: list[int], k: int) -> None:
    best, positions = stable_top(torch.tensor([scores], dtype=torch.float32), k)
    wanted = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:k]
    assert positions[0].tolist() == wanted
    assert best[0].tolist() == [scores[row] for row in wanted]


def test_vectors_in_half_precision_are_compared_in_single() -> None:
    base = vectors(30, seed=2).half()
    found, scores = ExactSearch(base).search(vectors(2, seed=3), 4)
    assert scores.dtype == torch.float32
    assert found.tolist() == naive(base, vectors(2, seed=3), 4)


def test_the_scores_of_products_in_float16_are_those_of_float32() -> None:
    # Blocks about one thing: scores near 20, between which products in float16 hardly tell.
    near = vectors(1, 128, seed=4) + 0.2 * vectors(3000, 128, seed=5)
    base = (20**0.5 * near / near.norm(dim=1, keepdim=True)).half()
    queries = base[:3].float() + 0.001
    exact = queries @ base.float().T
    assert ((queries.half() @ base.T).float() - exact).abs().max() > 0.005
    found, scores = ExactSearch(base, dtype=torch.float16).search(queries, 5)
    assert found.tolist() == naive(base, queries, 5)
    torch.testing.assert_close(scores, exact.gather(1, found), atol=1e-5, rtol=0)
    added = 0.1 * vectors(3, 3000, seed=6)
    found, scores = ExactSearch(base, dtype=torch.float16).search(queries, 5, added_BN=added)
    both, own = ExactSearch(base).search(queries, 5, added_BN=added)
    assert found.tolist() == both.tolist()
    torch.testing.assert_close(scores, own, atol=1e-5, rtol=0)


@settings(max_examples=50, deadline=None)
@given(rows=st.integers(1, 400), k=st.integers(1, 20), spread=st.sampled_from([1e-4, 1e-3, 1e-2, 1.0]))
def test_what_products_in_float16_may_miss(rows: int, k: int, spread: float) -> None:
    base, queries = (2 + spread * vectors(rows)).half(), vectors(3, seed=1)
    exact = queries @ base.float().T
    error = ((queries.half() @ base.T).float() - exact).abs().max().item() + 1e-4  # float32 rounds, too
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "_LEAST_CANDIDATES", 0)
        found, scores = ExactSearch(base, dtype=torch.float16).search(queries, k)
    assert found.shape == (3, min(k, rows))
    torch.testing.assert_close(scores, exact.gather(1, found), atol=1e-4, rtol=0)
    for own, wanted, row_scores in zip(found.tolist(), naive(base, queries, k), exact, strict=True):
        for missed in set(wanted) - set(own):
            below = row_scores[missed] - row_scores
            near = ((below > -1e-6) & (below < 2 * error)).sum().item() - 1
            assert near >= 3 * k + 1


def test_an_empty_index_finds_nothing() -> None:
    for dtype in (torch.float32, torch.float16):
        found, scores = ExactSearch(torch.empty(0, 8), dtype=dtype).search(vectors(2), 5)
        assert found.shape == scores.shape == (2, 0)


@given(excluded=st.sets(st.integers(0, 19), max_size=19), k=st.integers(1, 25))
def test_search_without_is_the_search_of_what_remains(excluded: set[int], k: int) -> None:
    base, query = vectors(20), vectors(1, seed=1)[0]
    [(rows, scores)] = search_without(ExactSearch(base).search, query.unsqueeze(0), [k], [excluded])
    wanted = [row for row in naive(base, query.unsqueeze(0), 20)[0] if row not in excluded][:k]
    assert rows == wanted
    assert scores == pytest.approx((base[wanted] @ query).tolist(), abs=1e-5)
