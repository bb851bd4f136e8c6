"""Passages for questions: given contexts, given articles, and what retrieval finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from realm_core.errors import RealmError
from realm_core.evaluation.answers import holds_answer
from realm_core.training.rows import ReadingRow, read_rows
from tests.core.conftest import Deployment
from tests.core.running import activity_of
from tests.core.training.material import QUESTIONS, questions, write_lines
from tests.tiny import ARTICLES


def mine(deployment: Deployment, tmp_path: Path, rows: list[dict[str, Any]], *options: object) -> list[ReadingRow]:
    path = write_lines(tmp_path / "set.jsonl", rows)
    output = tmp_path / "rows.jsonl"
    arguments = ["--questions", path, "--corpus", deployment.corpus, "--output", output, *options]
    activity_of("mine", arguments, run=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["rows"] == len(read_rows(output))
    return read_rows(output)


def test_words_find_the_article_of_each_question(deployment: Deployment, tmp_path: Path) -> None:
    rows = {row.question: row for row in mine(deployment, tmp_path, questions(), "--top", 4)}
    assert rows.keys() == {question for question, _, _ in QUESTIONS}
    for question, answer, title in QUESTIONS:
        row = rows[question]
        assert (title, ARTICLES[title]) in row.positives
        assert (row.answers, row.answer_type, row.group) == ((answer,), "string", "set")
        assert all(holds_answer(text, [answer]) for _, text in row.positives)
        assert len(row.negatives) >= 1 and not any(holds_answer(text, [answer]) for _, text in row.negatives)
        assert len(row.positives) + len(row.negatives) == 4


def test_a_model_with_its_index_finds_passages_too(deployment: Deployment, tmp_path: Path) -> None:
    options = ["--model", deployment.model, "--index", deployment.index, "--top", 12]
    rows = mine(deployment, tmp_path, questions(), *options)
    assert len(rows) == len(QUESTIONS)  # all twelve blocks were looked at
    for row, (_, _, title) in zip(rows, QUESTIONS, strict=True):
        assert title in [positive for positive, _ in row.positives]
        assert len(row.negatives) == 6


def test_a_named_article_is_the_only_positive(deployment: Deployment, tmp_path: Path) -> None:
    question = {"question": "Which country is it in, Egypt or Sudan?", "answers": ["Egypt"]}
    anywhere = mine(deployment, tmp_path, [question], "--top", 12)[0]
    assert sorted(title for title, _ in anywhere.positives) == ["Nile", "Suez Canal"]
    named = mine(deployment, tmp_path, [{**question, "title": "suez canal"}], "--top", 12)[0]
    assert named.positives == (("Suez Canal", ARTICLES["Suez Canal"]),)
    assert "Nile" not in [title for title, _ in named.negatives]  # it holds the answer, too


def test_questions_without_a_passage_are_left_out(deployment: Deployment, tmp_path: Path) -> None:
    rows = mine(deployment, tmp_path, [*questions()[:1], {"question": "Who?", "answers": ["Nobody at all"]}])
    assert [row.question for row in rows] == [QUESTIONS[0][0]]


def test_excluded_articles_are_not_learnt_from(deployment: Deployment, tmp_path: Path) -> None:
    (tmp_path / "excluded.json").write_text(json.dumps(["Suez Canal", "Mars"]))
    rows = mine(deployment, tmp_path, questions(), "--exclude-titles", tmp_path / "excluded.json", "--top", 12)
    titles = {title for row in rows for title, _ in (*row.positives, *row.negatives)}
    assert titles and not titles & {"Suez Canal", "Mars"}
    assert "Suez Canal" not in {title for row in rows for title, _ in row.positives}


def test_a_given_context_is_the_positive_and_its_neighbours_the_negatives(
    deployment: Deployment, tmp_path: Path
) -> None:
    def asked(question: str, answer: str, context: str, title: str = "Venus") -> dict[str, Any]:
        return {"question": question, "answers": [answer], "context": context, "title": title}

    rows = mine(
        deployment,
        tmp_path,
        [
            asked("How hot?", "464 °C", "Venus has 464 °C."),
            asked("How far?", "108 million km", "It is 108 million km away."),
            asked("How hot again?", "464 °C", "Still 464 °C."),
            asked("Elsewhere?", "yes", "yes, elsewhere", "Earth"),
        ],
    )
    assert rows[0].positives == (("Venus", "Venus has 464 °C."),)
    assert rows[0].negatives == (("Venus", "It is 108 million km away."),)  # the third holds the answer
    assert sorted(text for _, text in rows[1].negatives) == ["Still 464 °C.", "Venus has 464 °C."]
    assert rows[3].negatives == ()


def test_expressions_are_looked_for_as_such(deployment: Deployment, tmp_path: Path) -> None:
    question = {"question": "When was the canal opened?", "answers": [r"18\d\d"], "answer_type": "regex"}
    row = mine(deployment, tmp_path, [question], "--top", 12)[0]
    assert [title for title, _ in row.positives] == ["Suez Canal"] and row.answer_type == "regex"


def test_a_model_without_its_index_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="--model and --index go together"):
        mine(deployment, tmp_path, questions(), "--model", deployment.model)
