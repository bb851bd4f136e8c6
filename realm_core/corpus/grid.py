"""Tables whose cells reach over several columns and rows, laid out as the table model of the HTML standard says.

Wikitext, HTML and DOCX state their spans differently, and mean the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest

WIDEST_SPAN, HIGHEST_SPAN = 1000, 65534  # columns and rows of a cell, by the HTML standard


@dataclass(eq=False)
class Cell:
    """A cell over one or more columns and rows. heads: it is a heading of its row or column."""

    text: str
    heads: bool = False
    columns: int = 1
    rows: int = 1


def laid_out(rows: Iterable[Sequence[Cell]], most_columns: int) -> Iterator[list[Cell]]:
    """Each row with a cell in each column; a cell over several columns or rows is the same object in each of them.

    A span ends where a cell of an earlier row stands, at `most_columns`, and with the rows that are there: a number
    alone costs nothing.
    """
    above: dict[int, tuple[Cell, int]] = {}  # by column: a cell of an earlier row, and over how many more it reaches
    for cells in rows:
        row: list[Cell] = []
        own = deque(cells)
        reached = max(above, default=-1) + 1
        while len(row) < most_columns and (own or len(row) < reached):
            column, width = len(row), 1
            if column in above:
                cell, more = above.pop(column)
            elif own:
                cell = own.popleft()
                more, width = cell.rows - 1, cell.columns
            else:
                cell, more = Cell(""), 0
            for place in range(column, min(column + width, most_columns)):
                if place in above:
                    break
                if more > 0:
                    above[place] = (cell, more - 1)
                row.append(cell)
        yield row


def each_once(row: Sequence[Cell]) -> Iterator[tuple[Cell, range]]:
    """The cells of a row that is laid out, each with the columns that it takes."""
    column = 0
    for _, places in groupby(row):
        cells = list(places)
        yield cells[0], range(column, column + len(cells))
        column += len(cells)


def joined_names(above: Sequence[str], below: Sequence[str]) -> list[str]:
    """The names of columns that two rows of headings give; a heading over both rows counts once."""
    return [
        lower if upper == lower else f"{upper} {lower}".strip()
        for upper, lower in zip_longest(above, below, fillvalue="")
    ]
