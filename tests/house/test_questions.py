"""Questions that are measured by are not learnt from: the files that come with the source."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from realm_core.questions.answers import normalise_answer
from realm_core.questions.question_file import Question, read_questions

QUESTIONS = Path(__file__).resolve().parents[2] / "models" / "questions"
DEVELOPMENT = sorted(path.stem for path in QUESTIONS.glob("*-dev.jsonl"))
OTHER_LANGUAGES = ["french", "french-in-english", "spanish", "spanish-in-english"]  # over other corpora
GUESTS = ["guest-plain-test", "guest-casual-test", "guest-none-test"]
TESTS = ["kinds-test", "kinds-none-test", "first-test", "early-test", "early-none-test", "plain-test"]
CALLERS = ["caller-plain-test", "caller-casual-test", "caller-none-test"]
NEIGHBOURS = ["neighbour-plain-test", "neighbour-casual-test", "neighbour-none-test"]
TRAVELLERS = ["traveller-plain-test", "traveller-casual-test", "traveller-none-test"]
PILGRIMS = ["pilgrim-plain-test", "pilgrim-casual-test", "pilgrim-none-test"]
INSPECTORS = ["inspector-plain-test", "inspector-casual-test", "inspector-none-test"]
STRANGERS = [*GUESTS, *CALLERS, *NEIGHBOURS, *TRAVELLERS, *PILGRIMS, *INSPECTORS]
MEASURED = [*DEVELOPMENT, *OTHER_LANGUAGES, *STRANGERS, *TESTS]
# What each file that is learnt from must not share a question with. Of plain-train, which is older than most of the
# others, `mine --without` leaves out the rest.
MEASURED_BY = {
    "plain-train": ["plain-dev", "plain-test"],
    "people-train": MEASURED,
    "people-none-train": MEASURED,
    "people-more-train": MEASURED,
    "people-more-none-train": MEASURED,
    "words-train": MEASURED,
    "varied-train": MEASURED,
    "varied-none-train": MEASURED,
}


@cache
def read(name: str) -> list[Question]:
    return read_questions(QUESTIONS / f"{name}.jsonl", answerable=name not in UNANSWERABLE)


UNANSWERABLE = (
    "people-none-train",
    "people-more-none-train",
    "varied-none-train",
    "varied-none-dev",
    "examiner-none-dev",
    "unanswerable-dev",
    "visitor-none-dev",
    "countries-none-dev",
    "guest-none-test",
    "caller-none-test",
    "neighbour-none-test",
    "traveller-none-test",
    "pilgrim-none-test",
    "inspector-none-test",
    "kinds-none-dev",
    "kinds-none-test",
    "early-none-dev",
    "early-none-test",
)


@pytest.mark.parametrize("learnt", MEASURED_BY)
def test_no_question_is_learnt_and_measured_by(learnt: str) -> None:
    measured = {normalise_answer(one.question) for name in MEASURED_BY[learnt] for one in read(name)}
    assert [one.question for one in read(learnt) if normalise_answer(one.question) in measured] == []


@pytest.mark.parametrize("learnt", MEASURED_BY)
def test_articles_that_are_measured_by_are_held_out(learnt: str) -> None:
    held_out = set(json.loads((QUESTIONS / "held-out-titles.json").read_text()))
    assert {one.title for name in ("plain-dev", "plain-test") for one in read(name)} <= held_out
    assert [one.title for one in read(learnt) if one.title in held_out] == []


@pytest.mark.parametrize("learnt", ["people-train", "people-more-train"])
def test_what_people_ask_is_of_other_articles_than_what_examiners_ask(learnt: str) -> None:
    # Titles of `countries-dev` are those of The World Factbook's articles, which nothing is learnt from.
    titles = {one.title for name in DEVELOPMENT if name != "countries-dev" for one in read(name) if one.title}
    assert [one.title for one in read(learnt) if one.title in titles] == []


@pytest.mark.parametrize("name", [*MEASURED_BY, *MEASURED])
def test_no_question_stands_twice(name: str) -> None:
    asked = Counter(normalise_answer(one.question) for one in read(name))
    assert sorted(question for question, count in asked.items() if count > 1) == []


@pytest.mark.parametrize("name", ["plain-train", "people-train", "people-more-train", "words-train"])
def test_the_readme_counts_right(name: str) -> None:
    told, own = (QUESTIONS / "README.md").read_text(), read(name)
    assert f"| {len(own):,}, over {len({one.title for one in own}):,} articles |" in told
