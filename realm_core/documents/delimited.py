"""CSV and TSV: one table, whose first line names the columns; each other row becomes a sentence."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from itertools import islice

from realm_core.documents.draft import Draft
from realm_core.errors import RealmError, quoted

_DELIMITERS = ",;\t|"
_SAMPLE_CHARACTERS, _SAMPLE_ROWS = 1 << 16, 50  # that tell the delimiter
_NUMBER = re.compile(r"[-+]?[\d.,' ]*\d[\d.,' ]*%?")
_YEAR = re.compile(r"[12]\d{3}")


def read_delimited(text: str, draft: Draft, delimiter: str = "") -> None:
    """Read the rows one by one; `RealmError` names the first line that is not a row of the table.

    delimiter: between the cells; "": the one of comma, semicolon, tab and bar that divides the first rows alike.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    rows = _rows(text, delimiter or _delimiter(text))
    heading, names = next(rows, (1, []))
    while names and not names[-1]:
        names.pop()
    _check_names(names, heading)
    count = 0
    for line, cells in rows:
        if len(cells) != len(names) and (len(cells) < len(names) or any(cells[len(names) :])):
            raise RealmError(
                f"is no table: its line {line:,} has {len(cells):,} cell{'s' if len(cells) > 1 else ''}, but line "
                f"{heading:,}, which names the columns, has {len(names):,}."
            )
        draft.row(names, cells[: len(names)])
        count += 1
    if not count:
        raise RealmError(f"holds no row below line {heading:,}, which names the columns.")


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that hold something, each with the number of the line that it begins in."""
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:  # a cell of more than 131,072 characters, too
            raise RealmError(f"is no table: in its row of line {line:,}, {error}.") from None
        if any(cells):
            yield line, cells


def _delimiter(text: str) -> str:
    def alike(delimiter: str) -> tuple[int, int]:
        """How many of the first rows have as many cells as the first one, and how many these are."""
        reader = csv.reader(io.StringIO(text[:_SAMPLE_CHARACTERS]), delimiter=delimiter)
        widths = [len(row) for row in islice(reader, _SAMPLE_ROWS) if row]
        return (widths.count(widths[0]), widths[0]) if widths and widths[0] > 1 else (0, 0)

    return max(_DELIMITERS, key=alike)


def _check_names(names: list[str], line: int) -> None:
    if len(names) < 2:
        raise RealmError(f"is no table: its line {line:,} names {len(names):,} columns, and at least 2 are expected.")
    for name in names:
        if _NUMBER.fullmatch(name) and not _YEAR.fullmatch(name):
            raise RealmError(
                f"names no columns: {quoted(name)} in its line {line:,} is a number; put a line with the names first."
            )
    if not all(names[1:]):  # the first one may be blank, above the names of the rows
        raise RealmError(f"has a column without a name: column {names.index('', 1) + 1:,} in its line {line:,}.")
