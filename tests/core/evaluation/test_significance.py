"""Differences between recipes that were trained with several seeds; those of one run each: `test_compare.py`."""

from __future__ import annotations

import numpy as np
import pytest

from realm_core.errors import RealmError
from realm_core.evaluation.significance import paired_difference, repeated_difference


def test_a_difference_over_seeds_is_of_the_means_and_wider_than_that_of_one_seed() -> None:
    draws = np.random.default_rng(5)
    first, second = draws.random((3, 400)) < 0.5, draws.random((3, 400)) < 0.6
    found = repeated_difference(first.tolist(), second.tolist())
    assert found.difference == pytest.approx(second.mean() - first.mean())
    assert found.low < found.difference < found.high
    # Seeds that differ as wholes: which of them are drawn decides.
    uneven = np.stack([np.zeros(400, bool), np.ones(400, bool), np.ones(400, bool)])
    wide = repeated_difference(first.tolist(), uneven.tolist())
    assert wide.high - wide.low > 2 * (found.high - found.low)


def test_one_seed_comes_to_the_interval_of_the_questions_alone() -> None:
    draws = np.random.default_rng(6)
    first, second = draws.random(500) < 0.5, draws.random(500) < 0.55
    one = repeated_difference([first.tolist()], [second.tolist()])
    other = paired_difference(zip(first.tolist(), second.tolist(), strict=True))
    assert one.difference == pytest.approx(other.difference)
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=0.006)


@pytest.mark.parametrize(("first", "second"), [([], []), ([[]], [[]]), ([[True]], [[True, False]])])
def test_seeds_without_the_same_questions_are_refused(first: list[list[bool]], second: list[list[bool]]) -> None:
    with pytest.raises(RealmError, match="the same questions"):
        repeated_difference(first, second)
