"""What people often mistype costs less, and equal words nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from realm_core.text.typing_errors import typing_cost

words = st.text("abcde", max_size=7)


@pytest.mark.parametrize(
    ("typed", "likelier", "other"),
    [
        ("penicilin", "penicillin", "penicilian"),  # a letter of a pair left out, before another one
        ("diiscovered", "discovered", "dixscovered"),  # a letter doubled
        ("ghandi", "gandhi", "gandoi"),  # an h that is not heard
        ("kaolas", "koalas", "kaplas"),  # neighbours exchanged
        ("inventer", "inventor", "inventes"),  # a vowel for another
        ("austrlia", "australia", "austria"),  # a vowel left out rather than a letter added
        ("cepler", "ceplar", "kepler"),  # the first letter is seldom wrong
    ],
)
def test_what_people_often_mistype_costs_less(typed: str, likelier: str, other: str) -> None:
    assert 0 < typing_cost(typed, likelier) < typing_cost(typed, other)


@given(words, words)
def test_it_is_near_the_number_of_errors(one: str, other: str) -> None:
    cost, errors = typing_cost(one, other), OSA.distance(one, other)
    assert (cost == 0) == (one == other)
    assert 0.6 * errors - 1e-9 <= cost <= 1.1 * errors + 0.6 + 1e-9


def test_errors_add_up() -> None:
    assert typing_cost("nepolion", "napoleon") == pytest.approx(
        typing_cost("nepoleon", "napoleon") + typing_cost("napolion", "napoleon")
    )
