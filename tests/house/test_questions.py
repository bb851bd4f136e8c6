"""Questions that are measured by are not learnt from: the files that come with the source."""

from __future__ import annotations

import json
from pathlib import Path

from realm_core.evaluation.answers import normalise_answer
from realm_core.training.questions import read_questions

QUESTIONS = Path(__file__).resolve().parents[2] / "models" / "questions"
LEARNT = read_questions(QUESTIONS / "plain-train.jsonl")
MEASURED = [one for name in ("plain-dev", "plain-test") for one in read_questions(QUESTIONS / f"{name}.jsonl")]


def test_no_question_is_learnt_and_measured_by() -> None:
    measured = {normalise_answer(one.question) for one in MEASURED}
    assert [one.question for one in LEARNT if normalise_answer(one.question) in measured] == []


def test_articles_that_are_measured_by_are_held_out() -> None:
    held_out = set(json.loads((QUESTIONS / "held-out-titles.json").read_text()))
    assert {one.title for one in MEASURED} <= held_out
    assert [one.title for one in LEARNT if one.title in held_out] == []


def test_no_question_stands_twice() -> None:
    asked = [normalise_answer(one.question) for one in LEARNT]
    assert len(asked) == len(set(asked))


def test_the_readme_counts_right() -> None:
    told = (QUESTIONS / "README.md").read_text()
    titles = {one.title for one in LEARNT}
    assert f"| {len(LEARNT):,}, over {len(titles):,} articles |" in told
