"""Tables of a PDF without tags, found by what is drawn: a grid of lines, boxes side by side, or lines across.

What is only aligned is no table: lists, forms and columns of prose are, too.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from realm_core.documents.pdf_tables.bands import groups_of_bands, stacks_of, tables_of_bands, tables_of_stack
from realm_core.documents.pdf_tables.drawn import Box, Drawn
from realm_core.documents.pdf_tables.grids import grids_of, table_of
from realm_core.documents.pdf_tables.segments import Glyph, RuledTable, Segment, glyphs_of, segments_of

if TYPE_CHECKING:
    from pypdfium2 import PdfPage, PdfTextPage

_MOST_CANDIDATES = 60  # of a page; more are a drawing
_MOST_TEXT = 20_000  # characters of a page
_COST_OF_PLACES = 4
_LEAST_FILLED = 0.5  # of the cells; else it is a form, a diagram, or for layout
_LEAST_SINGLE = 0.5  # of the filled cells; more spans are a drawing
_CODE = 0.9  # of the letters are equally wide
_FEWEST_LETTERS = 10
_LONGEST_USUAL = 600  # characters of the middle cell; else these are paragraphs in boxes
_MARKER = re.compile(r"[^\w\s]|\(?(?:\d{1,2}|\w)[.)]")  # of an item of a list


def ruled_tables(page: PdfPage, text_page: PdfTextPage, text: str, drawn: Drawn) -> tuple[list[RuledTable], int]:
    """The tables of a page with this text, and how much was looked at, counted in characters."""
    groups = groups_of_bands(drawn.boxes)
    edges = [edge for bands in groups for band in bands for edge in band.edges]
    grids, stacks = list(grids_of(drawn, edges)), list(stacks_of(drawn.across))
    candidates = len(grids) + len(groups) + len(stacks)
    if not 0 < candidates <= _MOST_CANDIDATES or len(text) > _MOST_TEXT:
        return [], 0
    looked_at = len(text) * (_COST_OF_PLACES + candidates) + sum(len(grid.xs) * len(grid.ys) for grid in grids)
    glyphs = glyphs_of(page, text_page, text)
    segments = list(segments_of(glyphs))
    tables: list[RuledTable] = []
    taken: set[int] = set()

    def add(table: RuledTable | None) -> None:
        if table is not None and not taken & table.cells.keys() and _is_usable(table, text):
            _mark_headings_by_colour(table, drawn.boxes, glyphs)
            tables.append(table)
            taken.update(table.cells)

    def add_unless_code(table: RuledTable) -> None:
        if not _is_code(table, glyphs, text):
            add(table)

    def free() -> list[Segment]:
        return [segment for segment in segments if segment.places[0] not in taken]

    for grid in grids:
        add(table_of(grid, glyphs, segments))
    for bands in groups:
        for found in list(tables_of_bands(bands, free(), drawn.across)):
            add_unless_code(found.table())
    for rules in stacks:
        for found in list(tables_of_stack(rules, free())):
            add_unless_code(found.table())
    return tables, looked_at


def _is_usable(table: RuledTable, text: str) -> bool:
    """Most cells are filled, and not with paragraphs; the first column is not the marks of a list."""
    lengths: dict[int, int] = defaultdict(int)
    for cell in table.cells.values():
        lengths[id(cell)] += 1
    filled = [sum(id(cell) in lengths for cell in row) for row in table.rows]
    table.is_whole = sum(count > 1 for count in filled) > 1
    if not any(count > 1 for count in filled) or sum(filled) < _LEAST_FILLED * sum(map(len, table.rows)):
        return False
    if median(lengths.values()) > _LONGEST_USUAL:
        return False
    single = sum(cell.columns == cell.rows == 1 and id(cell) in lengths for row in table.rows for cell in row)
    if single < _LEAST_SINGLE * sum(filled):
        return False
    first = {id(row[0]) for row in table.rows if row and row[0].columns == 1}
    words: dict[int, list[str]] = defaultdict(list)
    for place, cell in table.cells.items():
        if id(cell) in first:
            words[id(cell)].append(text[place])
    return not words or not all(_MARKER.fullmatch("".join(one)) for one in words.values())


def _is_code(table: RuledTable, glyphs: Sequence[Glyph | None], text: str) -> bool:
    """Whether the text is in type of one width, in which words stand below one another without being columns."""
    widths: Counter[float] = Counter()
    for place in table.cells:
        glyph = glyphs[place]
        if glyph is not None and text[place].isalpha():
            widths[round((glyph.right - glyph.left) / max(glyph.top - glyph.bottom, 1.0), 2)] += 1
    letters = widths.total()
    return letters >= _FEWEST_LETTERS and widths.most_common(1)[0][1] >= _CODE * letters


def _mark_headings_by_colour(table: RuledTable, boxes: Sequence[Box], glyphs: Sequence[Glyph | None]) -> None:
    """The first row names the columns if it is on a colour on which no other is."""
    first: dict[int, Glyph | None] = {}
    for place, cell in table.cells.items():
        first.setdefault(id(cell), glyphs[place])
    rows = [[first[id(cell)] for cell in row if id(cell) in first] for row in table.rows]
    rows = [row for row in rows if row]
    colours = {_colour_at(glyph, boxes) for glyph in rows[0]} if len(rows) > 1 and boxes else set()
    if len(colours) != 1 or None in colours or any(_colour_at(row[0], boxes) in colours for row in rows[1:]):
        return
    for cell in table.rows[0]:
        cell.heads = True


def _colour_at(glyph: Glyph | None, boxes: Sequence[Box]) -> tuple[int, ...] | None:
    if glyph is None:
        return None
    return next(
        (
            box.colour
            for box in reversed(boxes)
            if box.left <= glyph.left < box.right and box.bottom <= glyph.middle < box.top
        ),
        None,
    )
