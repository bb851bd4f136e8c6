"""Published question sets become question files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from realm_core.errors import RealmError
from realm_core.questions.question_file import read_questions
from tests.core.running import activity_of

SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "Oil_crisis",
            "paragraphs": [
                {
                    "context": "The crisis began in October 1973.",
                    "qas": [
                        {"question": "When did it begin?", "answers": [{"text": "October 1973"}, {"text": "1973"}] * 2},
                        {"question": "Who sang?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}
WEBQ = [
    {
        "url": "x",
        "utterance": "who is the sister?",
        "targetValue": r'(list (description "Jazmyn \"J\" Bieber") (description Jaxon) (description "A (b)"))',
    }
]
TRIVIA = {"Data": [{"Question": "A type of what?", "Answer": {"Value": "Helicopter", "Aliases": ["Helicopter", "🚁"]}}]}

DPR = [{"dataset": "nq", "question": "who sings", "answers": ["Linda Davis"], "positive_ctxs": [{"title": "x"}]}]


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("format", "text", "wanted"),
    [
        (
            "nq",
            lines({"question": "who sang it", "answer": ["A", "B"]}),
            {"question": "who sang it", "answers": ["A", "B"]},
        ),
        (
            "trec",
            lines({"question": "When?", "answer": ["Sept?(ember)?"]}),
            {"question": "When?", "answers": ["Sept?(ember)?"], "answer_type": "regex"},
        ),
        (
            "trec",
            "\ufeff7\tfactoid\tHow high?\t2,?[45]00|high\r\n",
            {"question": "How high?", "answers": ["2,?[45]00|high"], "answer_type": "regex"},
        ),
        (
            "webq",
            json.dumps(WEBQ),
            {"question": "who is the sister?", "answers": ['Jazmyn "J" Bieber', "Jaxon", "A (b)"]},
        ),
        (
            "own",
            "\ufeff" + lines({"question": "Who?", "answers": ["A"], "answer_type": "regex", "title": "T", "id": 7}),
            {"question": "Who?", "answers": ["A"], "answer_type": "regex", "title": "T", "id": 7},
        ),
        ("trivia", json.dumps(TRIVIA), {"question": "A type of what?", "answers": ["Helicopter", "🚁"]}),
        (
            "squad",
            json.dumps(SQUAD),
            {
                "question": "When did it begin?",
                "answers": ["October 1973", "1973"],
                "title": "Oil crisis",
                "context": "The crisis began in October 1973.",
            },
        ),
        ("dpr", "who ran\t['O\\'Neil', \"a b\"]\r\n", {"question": "who ran", "answers": ["O'Neil", "a b"]}),
        ("dpr", json.dumps(DPR, indent=4), {"question": "who sings", "answers": ["Linda Davis"]}),
        ("tsv", "who ran\t O'Neil\ta b\t\r\n", {"question": "who ran", "answers": ["O'Neil", "a b"]}),
    ],
)
def test_a_published_set_becomes_rows(tmp_path: Path, format: str, text: str, wanted: dict[str, Any]) -> None:
    (tmp_path / "published").write_text(text)
    made = tmp_path / "made.jsonl"
    activity_of("questions", [tmp_path / "published", "--format", format, "--output", made])
    assert [json.loads(line) for line in made.read_text().splitlines()] == [wanted]
    (question,) = read_questions(made)
    assert (question.question, list(question.answers)) == (wanted["question"], wanted["answers"])


def test_evaluation_questions_are_excluded_in_any_spelling(tmp_path: Path) -> None:
    (tmp_path / "all").write_text(
        lines(*({"question": q, "answer": ["x"]} for q in ("Who ran?", "who sang", "Who won?")))
    )
    (tmp_path / "measured.jsonl").write_text(lines({"question": "who  ran", "answers": ["y"]}))
    made = tmp_path / "made.jsonl"
    words = [tmp_path / "all", "--format", "nq", "--output", made, "--without", tmp_path / "measured.jsonl"]
    activity_of("questions", words, run=tmp_path / "run")
    assert [one.question for one in read_questions(made)] == ["who sang", "Who won?"]
    assert json.loads((tmp_path / "run" / "result.json").read_text())["left_out"] == 1


@pytest.mark.parametrize(
    ("format", "text", "message"),
    [
        (
            "nq",
            lines({"question": "who", "answers": ["A"]}),
            r"published, line 1: there is no 'answer'; is the file in another format",
        ),
        (
            "nq",
            lines({"question": "who", "answer": []}),
            r"line 1: `answers` must be a list of non-empty texts",
        ),
        ("own", lines({"question": "who"}), r"line 1: `answers` must be a list of non-empty texts"),
        ("own", "[1]", "published, line 1: a JSON object is expected, not list"),
        ("nq", "\n[1]\n", "published, line 2: a value has an unexpected type"),
        ("nq", "{", "published, line 1 is not valid JSON"),
        ("trec", "7\tfactoid\tHow high?\n", "published, line 1: four columns are expected"),
        ("trec", "7\tfactoid\tHow high?\t(\n", "published, line 1: The regular expression .* is not valid"),
        ("webq", json.dumps({"utterance": "x"}), "published: a list is expected, not dict"),
        ("webq", json.dumps([{"utterance": "x", "targetValue": "(list)"}]), "question 1: `answers` must be a list"),
        ("trivia", json.dumps(WEBQ), "published: a value has an unexpected type"),
        ("trivia", json.dumps({"Data": [{"Question": "x"}]}), "question 1: there is no 'Answer'"),
        ("squad", json.dumps({"data": [{"title": "A_b"}]}), "article 1: there is no 'paragraphs'"),
        ("squad", json.dumps(TRIVIA), "there is no 'data'"),
        ("dpr", "who ran\t__import__('os')\n", "line 1: two columns are expected"),
        ("dpr", "who ran\n", "line 1: two columns are expected"),
        ("dpr", json.dumps([*DPR, {"question": "who ran"}]), "question 2: there is no 'answers'"),
        ("tsv", "who ran\t \n", "line 1: a question and its answers are expected, with tabs between"),
        ("squad", json.dumps({"data": []}), "No questions are left of 0"),
    ],
)
def test_another_format_is_refused_with_its_place(tmp_path: Path, format: str, text: str, message: str) -> None:
    (tmp_path / "published").write_text(text)
    with pytest.raises(RealmError, match=message):
        activity_of("questions", [tmp_path / "published", "--format", format, "--output", tmp_path / "made.jsonl"])
    assert [path.name for path in tmp_path.iterdir()] == ["published"]


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "published").write_text(lines({"question": "who", "answer": ["A"]}))
    (tmp_path / "made.jsonl").write_text("mine")
    with pytest.raises(RealmError, match=r"made\.jsonl exists already"):
        activity_of("questions", [tmp_path / "published", "--format", "nq", "--output", tmp_path / "made.jsonl"])
    assert (tmp_path / "made.jsonl").read_text() == "mine"
