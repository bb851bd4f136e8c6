"""Rows to learn reading from: a question with blocks that hold its answer and blocks that do not.

Kept as JSON lines, {"question", "answers", "answer_type", "positives": [[title, text], …], "negatives": […], "group"}.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError
from realm_core.files import disk_errors

Passage = tuple[str, str]  # title, text


@dataclass(frozen=True)
class ReadingRow:
    """group: the set that the question came from, for weights and figures."""

    question: str
    answers: tuple[str, ...]
    answer_type: str
    positives: tuple[Passage, ...]
    negatives: tuple[Passage, ...]
    group: str


def write_rows(path: Path, rows: Iterable[ReadingRow]) -> int:
    """Write all rows, or nothing; returns their number."""
    temporary = path.with_name(f".{path.name}.tmp")
    count = 0
    with disk_errors(path), open(temporary, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row.__dict__, ensure_ascii=False) + "\n")
            count += 1
    os.replace(temporary, path)
    return count


def read_rows(path: Path) -> list[ReadingRow]:
    """All rows of a file; the first bad one is an error that names file, line and what is wrong."""
    rows = []
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                try:
                    rows.append(_row(json.loads(line)))
                except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
                    raise RealmError(f"{path}, line {number}: not a row of training passages: {error}.") from None
    except FileNotFoundError:
        raise RealmError(f"{path} does not exist; make it with `python -m realm_core mine`.") from None
    except UnicodeDecodeError as error:
        raise RealmError(f"{path} is not UTF-8: {error}.") from None
    return rows


def _row(value: Any) -> ReadingRow:
    row = ReadingRow(
        question=value["question"],
        answers=tuple(value["answers"]),
        answer_type=value["answer_type"],
        positives=tuple((title, text) for title, text in value["positives"]),
        negatives=tuple((title, text) for title, text in value["negatives"]),
        group=value["group"],
    )
    texts = [row.question, row.group, *row.answers, *(part for pair in row.positives + row.negatives for part in pair)]
    if isinstance(value["answers"], str) or not all(isinstance(text, str) for text in texts):
        raise TypeError("question, group, titles and texts must be texts, answers a list of them")
    if not row.positives:
        raise ValueError("it has no passage that holds the answer")
    return row
