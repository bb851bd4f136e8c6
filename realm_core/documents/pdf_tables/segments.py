"""Text of a PDF's page by its place: characters, what of a line stands together, and rows of cells made of that.

Programs write a table cell by cell and row by row. So the order of the text, and not only its height, says which lines
are of one cell, and columns of prose, which are written one after the other, make no rows.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium
from pypdfium2 import PdfPage, PdfTextPage

from realm_core.corpus.grid import Cell
from realm_core.documents.pdf_tables.drawn import SAME, TURNS, Interval
from realm_core.documents.pdf_tables.table import Table

_GAP_IN_OBJECT = 0.6  # between columns, in heights of a line (about 1.15 of the type size)
_GAP = 0.4  # the same between text objects; a space is about 0.25
NEXT_LINE = 1.5  # heights from line to line in a cell


class Glyph(NamedTuple):
    """A visible character. place: in the page's text. drawn_by: the text object that it belongs to."""

    place: int
    left: float
    right: float
    bottom: float
    top: float
    drawn_by: int

    @property
    def middle(self) -> float:
        return (self.bottom + self.top) / 2


def visible(text_page: PdfTextPage, text: str) -> Iterator[tuple[int, int, Any]]:
    """Place, PDFium's number and text object of each visible character of a page's text.

    PDFium's numbers count characters without a Unicode value, too, which the text leaves out.
    """
    last = len(text) - 1
    is_whole = pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, last) == last
    for place, character in enumerate(text):
        if not character.isspace():
            index = place if is_whole else pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, place)
            if drawn := pdfium.FPDFText_GetTextObject(text_page, index):
                yield place, index, drawn


def glyphs_of(page: PdfPage, text_page: PdfTextPage, text: str) -> dict[int, Glyph]:
    """The visible characters of a page's text by their places in it."""
    turn, box = TURNS.get(page.get_rotation()), pdfium.FS_RECTF()
    glyphs: dict[int, Glyph] = {}
    for place, index, drawn in visible(text_page, text):
        if pdfium.FPDFText_GetLooseCharBox(text_page, index, box):
            edges = box.left, box.bottom, box.right, box.top
            left, bottom, right, top = edges if turn is None else turn.on_rect(*edges)
            glyphs[place] = Glyph(place, left, right, bottom, top, ctypes.addressof(drawn.contents))
    return glyphs


@dataclass(frozen=True)
class Segment:
    """Characters that stand close to one another on a line."""

    places: range
    left: float
    right: float
    bottom: float
    top: float

    @classmethod
    def of(cls, glyphs: Sequence[Glyph]) -> Segment:
        return cls(
            range(glyphs[0].place, glyphs[-1].place + 1),
            min(one.left for one in glyphs),
            max(one.right for one in glyphs),
            min(one.bottom for one in glyphs),
            max(one.top for one in glyphs),
        )

    @property
    def height(self) -> float:
        return self.top - self.bottom

    @property
    def middle(self) -> float:
        return (self.bottom + self.top) / 2

    def is_between(self, left: float, right: float) -> bool:
        return left - SAME <= self.left and self.right <= right + SAME


def segments_of(glyphs: Iterable[Glyph]) -> Iterator[Segment]:
    """glyphs: in the order in which they are written."""
    together: list[Glyph] = []
    for glyph in glyphs:
        if together and not _goes_on(together[-1], glyph):
            yield Segment.of(together)
            together = []
        together.append(glyph)
    if together:
        yield Segment.of(together)


def _goes_on(glyph: Glyph, following: Glyph) -> bool:
    gap, height = following.left - glyph.right, max(glyph.top - glyph.bottom, 1.0)
    if abs(following.middle - glyph.middle) > height / 2 or not -height <= gap <= height * _GAP_IN_OBJECT:
        return False
    return gap < height * _GAP or following.drawn_by == glyph.drawn_by


SegmentRow = dict[tuple[int, int], list[Segment]]  # first and last column → what stands in them


def rows_of(
    segments: Sequence[Segment], bounds: Sequence[Interval], breaks: Sequence[float] = ()
) -> list[SegmentRow] | None:
    """What is written cell by cell, as rows; None if it is not in this order.

    bounds: left and right edge of what stands in each column. breaks: heights at which a row ends, rising.
    """
    rows: list[SegmentRow] = []
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
        return is_below and above.middle - segment.middle > NEXT_LINE * above.height
    return is_below


def columns_of(segment: Segment, bounds: Sequence[Interval]) -> tuple[int, int]:
    """The first and the last column to which a segment reaches; the nearest one if it stands in a gap."""
    first = bisect_left(bounds, segment.left, key=lambda column: column[1])
    last = bisect_right(bounds, segment.right, key=lambda column: column[0]) - 1
    if first > last:
        middle = (segment.left + segment.right) / 2
        first = last = min(range(len(bounds)), key=lambda number: abs(sum(bounds[number]) / 2 - middle))
    return first, last


def within(edges: Sequence[float]) -> list[Interval]:
    """What may stand in columns with these edges."""
    return [(left + SAME, max(left, right - SAME)) for left, right in pairwise(edges)]


def cells_of(row: SegmentRow, columns: int, cells: dict[int, Cell]) -> list[Cell]:
    """The cells of a row, with one for each column without text; its characters are added to `cells`."""
    made: list[Cell] = []
    reached = 0
    for (first, last), segments in sorted(row.items()):
        first = max(first, reached)
        last = max(first, last)
        made += (Cell("") for _ in range(first - reached))
        made.append(Cell("", columns=last - first + 1))
        reached = last + 1
        for segment in segments:
            cells.update(dict.fromkeys(segment.places, made[-1]))
    return [*made, *(Cell("") for _ in range(columns - reached))]


def in_row(row: SegmentRow) -> list[Segment]:
    return [segment for segments in row.values() for segment in segments]


def table_of_rows(rows: Iterable[SegmentRow], columns: int, left: float, right: float, headings: int = 0) -> Table:
    """headings: how many rows name the columns."""
    table = Table(left=left, right=right)
    table.rows = [cells_of(row, columns, table.cells) for row in rows]
    table.head(headings)
    return table
