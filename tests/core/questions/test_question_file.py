"""Question files: reading, and errors with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.errors import RealmError
from realm_core.questions.question_file import Question, read_questions
from tests.core.training.material import questions, write_lines


def test_questions_are_read_as_written(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "q.jsonl",
        [
            {"question": " Who? ", "answers": ["Ada", "Lovelace"], "title": "Ada Lovelace", "context": "Ada."},
            {"question": "When?", "answers": ["18\\d\\d"], "answer_type": "regex", "id": "is left aside"},
        ],
    )
    path.write_text("\ufeff" + path.read_text() + "\n\n")  # as some editors begin a file in UTF-8
    assert read_questions(path) == [
        Question("Who?", ("Ada", "Lovelace"), "string", "Ada Lovelace", "Ada."),
        Question("When?", ("18\\d\\d",), "regex"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "a JSON object is expected, not list"),
        ('{"answers": ["a"]}', "`question` must be a non-empty text"),
        ('{"question": " ", "answers": ["a"]}', "`question` must be a non-empty text"),
        ('{"question": "q"}', "`answers` must be a list of non-empty texts"),
        ('{"question": "q", "answers": []}', "`answers` must be a list of non-empty texts"),
        ('{"question": "q", "answers": "a"}', "`answers` must be a list of non-empty texts"),
        ('{"question": "q", "answers": ["a", ""]}', "`answers` must be a list of non-empty texts"),
        ('{"question": "q", "answers": ["a"], "answer_type": "number"}', "`answer_type` must be one of string, regex"),
        ('{"question": "q", "answers": ["("], "answer_type": "regex"}', r"regular expression '\(' is not valid"),
        ('{"question": "q", "answers": ["a"], "title": 3}', "`title` must be a text"),
        ('{"question": "q", "answers": ["a"], "context": ["x"]}', "`context` must be a text"),
    ],
)
def test_a_bad_question_is_named_with_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    path = write_lines(tmp_path / "q.jsonl", questions()[:2])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(RealmError, match=rf"q\.jsonl, line 3:? .*{message}"):
        read_questions(path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=r"no\.jsonl does not exist"):
        read_questions(tmp_path / "no.jsonl")
    (tmp_path / "latin.jsonl").write_bytes('{"question": "Gödel"}'.encode("latin-1"))
    with pytest.raises(RealmError, match=r"latin\.jsonl is not UTF-8"):
        read_questions(tmp_path / "latin.jsonl")


def test_a_file_without_questions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text("\n\n")
    with pytest.raises(RealmError, match=r"q\.jsonl contains no questions"):
        read_questions(tmp_path / "q.jsonl")
