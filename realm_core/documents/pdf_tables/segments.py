"""Text of a PDF's page by its place: characters, what of a line stands together, and rows of cells made of that.

Programs write a table cell by cell and row by row. So the order of the text, and not only its height, says which lines
are of one cell, and columns of prose, which are written one after the other, make no rows.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from realm_core.corpus.grid import Cell
from realm_core.documents.pdf_tables.drawn import SAME, TURNS, UNTURNED, moved

if TYPE_CHECKING:
    from pypdfium2 import PdfPage, PdfTextPage

_GAP_IN_OBJECT = 0.6  # of the height of a line, about 1.15 of the type's size: between columns
_GAP = 0.4  # the same between what is drawn separately; a space is about 0.25
_NEXT_LINE = 1.5  # heights from line to line in a cell


class Glyph(NamedTuple):
    """A visible character. drawn_by: the text object that it belongs to."""

    left: float
    right: float
    bottom: float
    top: float
    drawn_by: int

    @property
    def middle(self) -> float:
        return (self.bottom + self.top) / 2


def character_places(text_page: PdfTextPage, text: str) -> Sequence[int]:
    """PDFium's number of each character of a page's text, which leaves out those without a Unicode value."""
    import pypdfium2.raw as pdfium

    last = len(text) - 1
    if pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, last) == last:
        return range(len(text))
    return [pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, place) for place in range(len(text))]


def glyphs_of(page: PdfPage, text_page: PdfTextPage, text: str) -> list[Glyph | None]:
    """The place of each character of a page's text; None of spaces."""
    import pypdfium2.raw as pdfium

    turn = TURNS.get(page.get_rotation(), UNTURNED)
    box = pdfium.FS_RECTF()
    glyphs: list[Glyph | None] = []
    for character, index in zip(text, character_places(text_page, text), strict=True):
        drawn = None if character.isspace() else pdfium.FPDFText_GetTextObject(text_page, index)
        if not drawn or not pdfium.FPDFText_GetLooseCharBox(text_page, index, box):
            glyphs.append(None)
            continue
        left, bottom, right, top = box.left, box.bottom, box.right, box.top
        if turn is not UNTURNED:
            left, bottom = moved(turn, left, bottom)
            right, top = moved(turn, right, top)
        glyphs.append(
            Glyph(
                min(left, right), max(left, right), min(bottom, top), max(bottom, top), ctypes.addressof(drawn.contents)
            )
        )
    return glyphs


Column = tuple[float, float]  # left and right edge of what stands in it


@dataclass(frozen=True)
class Segment:
    """Characters that stand close to one another on a line."""

    places: range
    left: float
    right: float
    bottom: float
    top: float

    @property
    def height(self) -> float:
        return self.top - self.bottom

    @property
    def middle(self) -> float:
        return (self.bottom + self.top) / 2


Row = dict[tuple[int, int], list[Segment]]  # first and last column → what stands in them


def segments_of(glyphs: Sequence[Glyph | None]) -> Iterator[Segment]:
    places: list[int] = []
    parts: list[Glyph] = []
    for place, glyph in enumerate(glyphs):
        if glyph is None:
            continue
        if parts and not _goes_on(parts[-1], glyph):
            yield _segment(places, parts)
            places, parts = [], []
        places.append(place)
        parts.append(glyph)
    if parts:
        yield _segment(places, parts)


def _goes_on(glyph: Glyph, following: Glyph) -> bool:
    gap, height = following.left - glyph.right, max(glyph.top - glyph.bottom, 1.0)
    if abs(following.middle - glyph.middle) > height / 2 or not -height <= gap <= height * _GAP_IN_OBJECT:
        return False
    return gap < height * _GAP or following.drawn_by == glyph.drawn_by


def _segment(places: Sequence[int], glyphs: Sequence[Glyph]) -> Segment:
    return Segment(
        range(places[0], places[-1] + 1),
        min(one.left for one in glyphs),
        max(one.right for one in glyphs),
        min(one.bottom for one in glyphs),
        max(one.top for one in glyphs),
    )


def rows_of(segments: Sequence[Segment], bounds: Sequence[Column], breaks: Sequence[float] = ()) -> list[Row] | None:
    """What is written cell by cell, as rows; None if it is not in this order.

    breaks: heights at which a row ends, rising.
    """
    rows: list[Row] = []
    last: tuple[int, int] = (0, 0)
    above: Segment | None = None
    bottom = top = 0.0
    for segment in segments:
        columns = columns_of(segment, bounds)
        crossed = bisect_right(breaks, bottom + SAME) - bisect_right(breaks, segment.middle)
        if above is None or crossed > 0 or _begins_row(segment, columns, above, last, bottom):
            if rows and segment.bottom > bottom + segment.height / 2:
                return None
            rows.append({})
            bottom, top = segment.bottom, segment.top
        elif segment.bottom > top:
            return None
        rows[-1].setdefault(columns, []).append(segment)
        bottom, top = min(bottom, segment.bottom), max(top, segment.top)
        last, above = columns, segment
    return rows


def _begins_row(
    segment: Segment, columns: tuple[int, int], above: Segment, last: tuple[int, int], bottom: float
) -> bool:
    is_below = segment.top < bottom + segment.height * 0.3
    if columns == last:
        return is_below and above.middle - segment.middle > _NEXT_LINE * above.height
    return is_below


def columns_of(segment: Segment, columns: Sequence[Column]) -> tuple[int, int]:
    """The first and the last column to which a segment reaches; the nearest one if it stands in a gap."""
    first = bisect_left(columns, segment.left, key=lambda column: column[1])
    last = bisect_right(columns, segment.right, key=lambda column: column[0]) - 1
    if first > last:
        middle = (segment.left + segment.right) / 2
        first = last = min(range(len(columns)), key=lambda number: abs(sum(columns[number]) / 2 - middle))
    return first, last


def within(bounds: Sequence[float]) -> list[Column]:
    return [(left + SAME, max(left, right - SAME)) for left, right in pairwise(bounds)]


def cells_of(row: Row, columns: int, cells: dict[int, Cell]) -> list[Cell]:
    """The cells of a row, with one for each column without text; its characters are added to `cells`."""
    made: list[Cell] = []
    reached = 0
    for (first, last), segments in sorted(row.items()):
        first = max(first, reached)
        last = max(first, last)
        made.extend(Cell("") for _ in range(first - reached))
        made.append(Cell("", columns=last - first + 1))
        reached = last + 1
        for segment in segments:
            cells.update((place, made[-1]) for place in segment.places)
    made.extend(Cell("") for _ in range(columns - reached))
    return made


def in_row(row: Row) -> list[Segment]:
    return [segment for segments in row.values() for segment in segments]


@dataclass(eq=False)
class RuledTable:
    """cells: of each character that is in the table. left, right: its edges. is_whole: it is a table by itself.

    is_cut: no line ends it below, so its last row may go on.
    """

    rows: list[list[Cell]]
    cells: dict[int, Cell]
    left: float
    right: float
    is_whole: bool = True
    is_cut: bool = False


@dataclass
class FoundRows:
    """headings: rows that name the columns."""

    rows: list[Row]
    columns: int
    left: float
    right: float
    headings: int = 0

    def table(self) -> RuledTable:
        cells: dict[int, Cell] = {}
        rows = [cells_of(row, self.columns, cells) for row in self.rows]
        for cell in (cell for row in rows[: self.headings] for cell in row):
            cell.heads = True
        return RuledTable(rows, cells, self.left, self.right)
