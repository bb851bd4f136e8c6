"""A question about a future year, or about who won in a year, is answered only from blocks that name the year."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from realm_core.serving.engine import Engine
from realm_core.serving.english.years import names_all, years_to_name
from tests.core.engines import block_of, check_sums

THIS_YEAR = datetime.datetime.now(datetime.UTC).year
SOON = THIS_YEAR + 5


@pytest.mark.parametrize(
    ("question", "years"),
    [
        (f"Who will win the World Cup in {SOON}?", {str(SOON)}),
        ("What will the population be on 1 March 2987, and in 3000?", {"2987", "3000"}),
        (f"What happened in {THIS_YEAR}?", set()),
        ("Who won the 2018 FIFA World Cup?", {"2018"}),
        ("best actor oscar winner 1998", {"1998"}),
        ("Which team won the World Series in 1919?", {"1919"}),
        ("Who won most medals between 2000 and 2012?", set()),
        ("Who won most races in the 1990s?", set()),
        ("Which Nobel Prize winner was born in 1867?", set()),
        ("When did Napoleon win at Austerlitz, before 1806?", set()),
        ("Who directed 2001: A Space Odyssey?", set()),
        ("Which mountain is 2,917 m high?", set()),
        ("What is 3.1415?", set()),
        ("Who has the number 20465?", set()),
    ],
)
def test_years_are_told_from_other_numbers(question: str, years: set[str]) -> None:
    assert years_to_name(question) == years


def test_a_block_that_does_not_name_the_year_says_not_here(engine: Engine) -> None:
    now = engine.ask("When did the Suez Canal open?", k=3, normalisation="block+null", as_typed=True)
    then = engine.ask(f"When did the Suez Canal open? {SOON}", k=3, normalisation="block+null", as_typed=True)
    assert now.no_answer_probability is not None and then.no_answer_probability is not None
    assert now.no_answer_probability < 0.99 < 0.999 < then.no_answer_probability
    assert then.answers and then.evidence[0].start is not None  # what came nearest is still shown
    check_sums(then)


def test_a_block_that_names_it_is_read(engine: Engine) -> None:
    block = replace(
        block_of(engine, engine.ask("The Suez Canal?", k=1).evidence[0].block_id), text=f"It ends in {SOON:,}."
    )
    assert names_all({str(SOON)}, block) and not names_all({str(SOON + 1)}, block) and names_all(set(), block)
