"""A table of a PDF while it is read: its part on one page, joined again over page breaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from realm_core.corpus.grid import Cell

_SAME_EDGE = 4.0  # points
_MOST_HEADINGS = 4  # rows


@dataclass(eq=False)
class Table:
    """The part of a table that is on one page, or after `takes` the whole table.

    rows:        of the cells as they are stated, spans not laid out.
    cells:       the cell of each character in the table, by the character's place in the page's text.
    left, right: edges of one without tags.
    is_whole:    it is a table by itself, not only as a part of one.
    is_cut:      no line ends it below, so its last row may go on.
    pages:       of each row, from 1.
    """

    rows: list[list[Cell]] = field(default_factory=list)
    cells: dict[int, Cell] = field(default_factory=dict)
    left: float = 0.0
    right: float = 0.0
    is_whole: bool = True
    is_cut: bool = False
    pages: list[int] = field(default_factory=list)

    @property
    def columns(self) -> int:
        return sum(cell.columns for cell in self.rows[0])

    def places(self) -> dict[Cell, list[int]]:
        """The places of the characters of each cell that has some."""
        places: dict[Cell, list[int]] = {}
        for place, cell in self.cells.items():
            places.setdefault(cell, []).append(place)
        return places

    def head(self, rows: int) -> None:
        """Note that the first rows name the columns."""
        for row in self.rows[:rows]:
            for cell in row:
                cell.heads = True

    def takes(self, rest: Table) -> bool:
        """Add what follows on the next page; False if that is another table."""
        if max(abs(self.left - rest.left), abs(self.right - rest.right)) > _SAME_EDGE or self.columns != rest.columns:
            return False
        repeated = self._repeated_by(rest)
        rows, pages = rest.rows[repeated:], rest.pages[repeated:]
        if any(cell.heads for row in rows for cell in row):
            return False
        # The rest of a row that was divided.
        if rows and (self.is_cut or not rows[0][0].text) and any(cell.text[:1].islower() for cell in rows[0]):
            add_to_row(self.rows[-1], rows[0])
            rows, pages = rows[1:], pages[1:]
        self.rows += rows
        self.pages += pages
        self.is_whole, self.is_cut = True, rest.is_cut
        return True

    def _repeated_by(self, rest: Table) -> int:
        """How many rows at the start of another table repeat the headings of this one, which may be marked as none."""
        headings = next((n for n, row in enumerate(self.rows) if not any(cell.heads for cell in row)), len(self.rows))
        repeated = 0
        for own, other in zip(self.rows[: headings or 1], rest.rows, strict=False):
            if [cell.text for cell in own] != [cell.text for cell in other]:
                break
            repeated += 1
        return repeated

    def begins_with(self, text: str) -> bool:
        """Whether this is the text of headings, or of the last of them, as they are repeated above the rest."""
        letters, names = _letters(text), ""
        for row in self.rows[:_MOST_HEADINGS]:
            names += "".join(_letters(cell.text) for cell in row)
            if names.endswith(letters):
                return True
        return False


def _letters(text: str) -> str:
    return "".join(text.split())


def add_to_row(row: Sequence[Cell], rest: Sequence[Cell]) -> None:
    """Join the rest of a row that a page break has divided to its beginning."""
    for cell, more in zip(row, rest, strict=False):
        cell.text = f"{cell.text}\n{more.text}".strip("\n")


@dataclass
class TableBudget:
    """What may still be looked at for tables, in all pages of a file.

    elements: of their structure. objects: drawn; a path counts as ten, and as its points. characters: some of them
    count several times.
    """

    elements: int = 2_000_000
    objects: int = 4_000_000
    characters: int = 5_000_000

    @property
    def is_spent(self) -> bool:
        return min(self.elements, self.objects, self.characters) <= 0
