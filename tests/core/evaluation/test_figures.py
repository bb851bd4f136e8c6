"""Figures of many predictions, and what a probability is worth."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm_core.errors import RealmError
from realm_core.evaluation.calibration import reliability
from realm_core.evaluation.evaluate import summarise


def prediction(right: bool, probability: float, *, given_answer: bool = True, rank: int | None = 1) -> dict[str, Any]:
    return {"right": right, "probability": probability, "given": given_answer, "answer_rank": rank}


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50), st.integers(1, 12))
def test_calibration_error_is_the_weighted_distance_of_the_bins(pairs: list[tuple[float, bool]], bins: int) -> None:
    table, error = reliability([p for p, _ in pairs], [right for _, right in pairs], bins)
    assert sum(row.count for row in table) == len(pairs)
    wanted = 0.0
    for number in range(bins):
        inside = [
            (p, right)
            for p, right in pairs
            if number / bins <= p < (number + 1) / bins or (p == 1.0 and number == bins - 1)
        ]
        # len(inside) / n · |mean p − mean right|, with the means' denominators cancelled
        wanted += abs(math.fsum(p for p, _ in inside) - sum(right for _, right in inside)) / len(pairs)
    assert error == pytest.approx(wanted, abs=1e-9)


def test_who_is_as_sure_as_right_is_calibrated() -> None:
    _, error = reliability([0.25] * 4 + [0.85] * 20, [True] + [False] * 3 + [True] * 17 + [False] * 3)
    assert error == pytest.approx(0.0, abs=1e-9)
    _, error = reliability([1.0] * 4, [True, False, False, False])
    assert error == pytest.approx(0.75)


def test_a_summary_counts_what_was_right_given_and_found() -> None:
    figures = summarise(
        [
            prediction(True, 0.9, rank=1),
            prediction(True, 0.2, given_answer=False, rank=4),
            prediction(False, 0.7, rank=None),
            prediction(False, 0.1, given_answer=False, rank=20),
        ]
    )
    assert (figures["n"], figures["exact_match"], figures["exact_match_given"], figures["withheld"]) == (
        4,
        0.5,
        0.25,
        0.5,
    )
    assert (figures["recall@1"], figures["recall@5"], figures["recall@20"]) == (0.25, 0.5, 0.75)
    assert figures["ece"] == pytest.approx((0.1 + 0.8 + 0.7 + 0.1) / 4)


def test_nothing_cannot_be_summarised() -> None:
    with pytest.raises(RealmError, match="no predictions"):
        summarise([])
