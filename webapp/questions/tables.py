"""Question sets as tables: CSV or TSV, as a spreadsheet exports it, become JSON lines in realm_core's format.

The first line names the columns: question, answer, perhaps title and context. Each cell holds one answer; further
columns of answers are called answer, too, or answer 2, or nothing; others are ignored.
"""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import PurePath
from typing import Any, Final

from realm_core.errors import RealmError
from realm_core.questions.question_file import checked_question

_ENDINGS: Final = (".csv", ".tsv")
COLUMNS: Final = (
    "question, answer (each further right answer in another column called answer), perhaps title and context"
)
_SEPARATOR: Final = "|"  # which people write between answers
_ANSWER: Final = re.compile(r"(answers?([ _-]?\d+)?)?")


def as_lines(content: bytes, file_name: str, *, answerable: bool | None) -> bytes:
    """The rows of a table as JSON lines; a file with another ending as it is.

    answerable: as for `read_questions`. RealmError, with the line, for what is no table and no question.
    """
    if PurePath(file_name).suffix.lower() not in _ENDINGS:
        return content
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RealmError(f"{file_name} is not UTF-8: save it as “CSV UTF-8”.") from None
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    made: list[dict[str, Any]] = []
    try:
        columns = [cell.strip().lower() for cell in next(rows, [])]
        if "question" not in columns:
            raise RealmError(f"{file_name}, line 1: it must name the columns: {COLUMNS}.")
        for cells in rows:
            if any(map(str.strip, cells)):
                place = f"{file_name}, line {rows.line_num}"
                made.append(_row(columns, cells, place))
                if not made[-1]["answers"] and answerable:
                    raise RealmError(
                        f"{place}: the column answer is empty: only files to measure by have such questions."
                    )
                checked_question(made[-1], place, answerable=answerable)
    except csv.Error as error:
        raise RealmError(f"{file_name}, line {rows.line_num}: {error}.") from None
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made).encode()


def typed_lines(text: str, *, answerable: bool | None) -> bytes:
    """As `as_lines`, of what was typed (a question a line, its answers behind semicolons) or pasted from a spreadsheet.

    A first line that names the columns is not needed. RealmError, with the line, for what is no question.
    """
    made: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        question, *answers = (cell.strip() for cell in line.split("\t" if "\t" in line else ";"))
        if (question or any(answers)) and (number > 1 or question.lower() != "question"):
            made.append({"question": question, "answers": [answer for answer in answers if answer]})
            if not made[-1]["answers"] and answerable:
                raise RealmError(f"Line {number} has no answer: only sets to measure by have such questions.")
            checked_question(made[-1], f"Line {number}", answerable=answerable)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made).encode()


def _delimiter(text: str) -> str:
    """The one of tab, semicolon and comma that the first line has most of."""
    first = text.partition("\n")[0]
    return max("\t;,", key=first.count)


def _row(columns: list[str], cells: list[str], place: str) -> dict[str, Any]:
    row: dict[str, Any] = {"question": "", "answers": []}
    for number, cell in enumerate(map(str.strip, cells)):
        named = columns[number] if number < len(columns) else ""
        if cell and _ANSWER.fullmatch(named):
            if _SEPARATOR in cell:
                raise RealmError(f"{place}: “{cell}” is in one cell; give each answer in a column of its own.")
            row["answers"].append(cell)
        elif cell and named in ("question", "title", "context"):
            row[named] = cell
    return row
