"""Tables of a PDF's pages: found by its tags or by what is drawn, and joined again over page breaks.

A table that is found by neither is text, as it is written.
"""

from __future__ import annotations

import ctypes
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from realm_core.corpus.grid import Cell
from realm_core.documents.pdf_tables.drawn import drawn_on
from realm_core.documents.pdf_tables.ruled import ruled_tables
from realm_core.documents.pdf_tables.segments import character_places
from realm_core.documents.pdf_tables.tags import TaggedTable, tagged_tables

if TYPE_CHECKING:
    from pypdfium2 import PdfPage, PdfTextPage

_MOST_ELEMENTS = 2_000_000  # of all pages' structure
_MOST_OBJECTS = 4_000_000  # drawn on all pages; a path counts as ten, and as its points
_MOST_CHARACTERS = 5_000_000  # looked at, some of them several times
_SAME_EDGE = 4.0  # points
_MOST_SPACES = 8  # between two characters of a cell
_MOST_HEADINGS = 4  # rows
_LONGEST_NAME = 256
_FORCE_BOLD = 1 << 18
_BOLD = re.compile(rb"(?i:bold|black|heavy|demi)|BX|-Bd|,B")
_HYPHEN_OF_PDFIUM = "\ufffe\x02"


@dataclass(eq=False)
class Table:
    """The part of a table that is on one page, or after `takes` the whole table.

    pages:    of each row, from 1.
    tagged:   what the tags say of it, if it has some.
    extent:   left and right edge, and columns, of one without tags.
    is_whole: it is a table by itself, not only as a part of one.
    is_cut:   no line ends it below.
    """

    rows: list[list[Cell]]
    pages: list[int]
    tagged: TaggedTable | None = None
    extent: tuple[float, float, int] = (0.0, 0.0, 0)
    is_whole: bool = True
    is_cut: bool = False

    def takes(self, rest: Table) -> bool:
        """Add what follows on the next page; False if that is another table."""
        if self.tagged and rest.tagged:
            return self._takes_tagged(rest, self.tagged, rest.tagged)
        edges = zip(self.extent, rest.extent, strict=True)
        if self.tagged or rest.tagged or any(abs(one - other) > _SAME_EDGE for one, other in edges):
            return False
        repeated = self._repeated_by(rest)
        rows, pages = rest.rows[repeated:], rest.pages[repeated:]
        if any(cell.heads for row in rows for cell in row):
            return False
        # The rest of a row that was divided.
        if rows and (self.is_cut or not rows[0][0].text) and any(cell.text[:1].islower() for cell in rows[0]):
            _add_to_row(self.rows[-1], rows[0])
            rows, pages = rows[1:], pages[1:]
        self.rows += rows
        self.pages += pages
        self.is_whole, self.is_cut = True, rest.is_cut
        return True

    def _takes_tagged(self, rest: Table, tagged: TaggedTable, following: TaggedTable) -> bool:
        last = tagged.places[-1]
        if not following.goes_on or tagged.parts != following.parts or max(following.places) < last:
            return False
        for row, place, page in zip(rest.rows, following.places, rest.pages, strict=True):
            if place == last:
                _add_to_row(self.rows[-1], row)
            elif place > last:  # else a heading that is repeated
                self.rows.append(row)
                self.pages.append(page)
                tagged.places.append(place)
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


def _add_to_row(row: Sequence[Cell], rest: Sequence[Cell]) -> None:
    for cell, more in zip(row, rest, strict=False):
        cell.text = f"{cell.text}\n{more.text}".strip("\n")


@dataclass
class Budget:
    """What may still be looked at for tables, in all pages of a file."""

    elements: int = _MOST_ELEMENTS
    objects: int = _MOST_OBJECTS
    characters: int = _MOST_CHARACTERS

    @property
    def is_spent(self) -> bool:
        return min(self.elements, self.objects, self.characters) <= 0


@dataclass
class PageTables:
    """owners: of each character of the page's text the number of its table; -1 for none."""

    tables: list[Table]
    owners: list[int]

    def runs(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Start, end and table of the parts of a piece of text."""
        for owner, places in groupby(range(start, end), self.owners.__getitem__):
            taken = list(places)
            yield taken[0], taken[-1] + 1, owner


def page_tables(page: PdfPage, text_page: PdfTextPage, text: str, number: int, budget: Budget) -> PageTables | None:
    """The tables of page `number` with this text; None if there are none."""
    if budget.is_spent or not text:
        return None
    tagged, looked_at = tagged_tables(page, budget.elements)
    budget.elements -= looked_at
    if tagged:
        budget.characters -= len(text)
        return _of_tags(tagged, text_page, text, number)
    drawn, looked_at = drawn_on(page, budget.objects)
    budget.objects -= looked_at
    ruled, looked_at = ruled_tables(page, text_page, text, drawn) if drawn else ([], 0)
    budget.characters -= looked_at
    if not ruled:
        return None
    cells: list[dict[int, Cell]] = [table.cells for table in ruled]
    tables = [
        Table(
            table.rows,
            [number] * len(table.rows),
            extent=(table.left, table.right, sum(cell.columns for cell in table.rows[0])),
            is_whole=table.is_whole,
            is_cut=table.is_cut,
        )
        for table in ruled
    ]
    return _filled(tables, cells, text_page, text)


def _of_tags(tagged: Sequence[TaggedTable], text_page: PdfTextPage, text: str, number: int) -> PageTables | None:
    owners = {content: (place, cell) for place, table in enumerate(tagged) for content, cell in table.content.items()}
    cells: list[dict[int, Cell]] = [{} for _ in tagged]
    for place, content in _marked_content(text_page, text):
        if content in owners:
            table, cell = owners[content]
            cells[table][place] = cell
    usable = [number for number, table in enumerate(tagged) if cells[number] and _has_columns(table.rows)]
    tables = [Table(tagged[one].rows, [number] * len(tagged[one].rows), tagged[one]) for one in usable]
    return _filled(tables, [cells[one] for one in usable], text_page, text) if usable else None


def _has_columns(rows: Sequence[Sequence[Cell]]) -> bool:
    """One column is no table, but perhaps a box around paragraphs."""
    return max(sum(cell.columns for cell in row) for row in rows) > 1


def _marked_content(text_page: PdfTextPage, text: str) -> Iterator[tuple[int, int]]:
    """Each visible character's place, and the number of the marked content to which it belongs."""
    import pypdfium2.raw as pdfium

    known: dict[int, int] = {}
    for place, index in enumerate(character_places(text_page, text)):
        drawn = None if text[place].isspace() else pdfium.FPDFText_GetTextObject(text_page, index)
        if drawn:
            address = ctypes.addressof(drawn.contents)
            if address not in known:
                known[address] = pdfium.FPDFPageObj_GetMarkedContentID(drawn)
            yield place, known[address]


def _filled(tables: list[Table], cells: Sequence[Mapping[int, Cell]], text_page: PdfTextPage, text: str) -> PageTables:
    """The tables with the text of their cells, and with the headings that are in bold type."""
    owners = [-1] * len(text)
    for number, (table, own) in enumerate(zip(tables, cells, strict=True)):
        for place in own:
            owners[place] = number
        _fill_cells(text, own)
        if not any(cell.heads for row in table.rows for cell in row):
            _mark_bold_headings(table.rows, own, text_page, text)
    for place, character in enumerate(text):
        if place and owners[place] < 0 and character.isspace():
            owners[place] = owners[place - 1]
    return PageTables(tables, owners)


def _fill_cells(text: str, cells: Mapping[int, Cell]) -> None:
    """Put each character into its cell, lines divided by line breaks; spaces go with what stands before them."""
    pieces: dict[int, tuple[Cell, list[str]]] = {}
    last, last_place = None, -1
    for place in sorted(cells):
        cell = cells[place]
        between = text[last_place + 1 : place] if last is not None and place - last_place <= _MOST_SPACES else "\n"
        if last is not None and between.isspace():
            pieces[id(last)][1].append(between)
        _, words = pieces.setdefault(id(cell), (cell, []))
        if words and (cell is not last or (between and not between.isspace())):
            words.append("\n")
        words.append("-\n" if text[place] in _HYPHEN_OF_PDFIUM else text[place])
        last, last_place = cell, place
    for cell, words in pieces.values():
        lines = "".join(words).replace("\r", "\n").split("\n")
        cell.text = "\n".join(line for line in map(str.strip, lines) if line)


def _mark_bold_headings(
    rows: Sequence[Sequence[Cell]], cells: Mapping[int, Cell], text_page: PdfTextPage, text: str
) -> None:
    """The first rows name the columns if they are in bold type and others are not."""
    places: dict[int, list[int]] = defaultdict(list)
    for place, cell in cells.items():
        places[id(cell)].append(place)
    indices = character_places(text_page, text)
    headings = 0
    for row in rows:
        ends = [indices[end] for cell in row if (own := places.get(id(cell))) for end in (own[0], own[-1])]
        if not ends or not all(_is_bold(text_page, index) for index in ends):
            break
        headings += 1
    if headings < len(rows):
        for cell in (cell for row in rows[:headings] for cell in row):
            cell.heads = True


def _is_bold(text_page: PdfTextPage, index: int) -> bool:
    import pypdfium2.raw as pdfium

    name, flags = ctypes.create_string_buffer(_LONGEST_NAME), ctypes.c_int()
    length = pdfium.FPDFText_GetFontInfo(text_page, index, name, _LONGEST_NAME, flags)
    return bool(flags.value & _FORCE_BOLD) or (length <= _LONGEST_NAME and bool(_BOLD.search(name.value)))
