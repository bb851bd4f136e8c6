"""Tables of a PDF without tags, found by what is drawn: a grid of lines, boxes side by side, or lines across.

What is only aligned is no table: lists, forms and columns of prose are, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from pypdfium2 import PdfPage, PdfTextPage

from realm_core.documents.pdf_tables.bands import (
    edges_of_stripes,
    groups_of_bands,
    stacks_of,
    tables_of_bands,
    tables_of_stack,
)
from realm_core.documents.pdf_tables.drawn import Box, drawn_on
from realm_core.documents.pdf_tables.grids import grids_of, table_of
from realm_core.documents.pdf_tables.segments import Glyph, Segment, glyphs_of, segments_of
from realm_core.documents.pdf_tables.table import Table, TableBudget

_MOST_CANDIDATES = 60  # of a page; more are a drawing
_MOST_TEXT = 20_000  # characters of a page
_COST_OF_PLACES = 4
_LEAST_FILLED = 0.5  # of the cells; else it is a form, a diagram, or for layout
_LEAST_SINGLE = 0.5  # of the filled cells; more spans are a drawing
_CODE = 0.9  # of the letters are equally wide
_FEWEST_LETTERS = 10
_LONGEST_USUAL = 600  # characters of the middle cell; else these are paragraphs in boxes
_MARKER = re.compile(r"[^\w\s]|\(?(?:\d{1,2}|\w)[.)]")  # of an item of a list


def ruled_tables(page: PdfPage, text_page: PdfTextPage, text: str, budget: TableBudget) -> list[Table]:
    drawn = drawn_on(page, budget)
    if drawn is None:
        return []
    groups = groups_of_bands(drawn.boxes)
    grids = list(grids_of(drawn, [edge for bands in groups for band in bands for edge in band.edges]))
    stacks = stacks_of([*drawn.across, *edges_of_stripes(drawn.boxes)])
    candidates = len(grids) + len(groups) + len(stacks)
    if not 0 < candidates <= _MOST_CANDIDATES or len(text) > _MOST_TEXT:
        return []
    budget.characters -= len(text) * (_COST_OF_PLACES + candidates) + sum(len(one.xs) * len(one.ys) for one in grids)
    glyphs = glyphs_of(page, text_page, text)
    segments = list(segments_of(glyphs.values()))
    tables: list[Table] = []
    taken: set[int] = set()

    def add(table: Table | None) -> None:
        if table is not None and not taken & table.cells.keys() and _is_usable(table, text):
            _mark_headings_by_colour(table, drawn.boxes, glyphs)
            tables.append(table)
            taken.update(table.cells)

    def add_unless_code(found: Iterable[Table]) -> None:
        for table in found:
            if not _is_code(table, glyphs, text):
                add(table)

    def free() -> list[Segment]:
        return [segment for segment in segments if segment.places[0] not in taken]

    for grid in grids:
        add(table_of(grid, glyphs.values(), segments))
    for bands in groups:
        add_unless_code(tables_of_bands(bands, free(), drawn.across))
    for rules in stacks:
        add_unless_code(tables_of_stack(rules, free()))
    return tables


def _is_usable(table: Table, text: str) -> bool:
    """Most cells are filled, and not with paragraphs; the first column is not the marks of a list."""
    places = table.places()
    filled = [[cell for cell in row if cell in places] for row in table.rows]
    table.is_whole = sum(len(row) > 1 for row in filled) > 1
    if not any(len(row) > 1 for row in filled) or sum(map(len, filled)) < _LEAST_FILLED * sum(map(len, table.rows)):
        return False
    if median(map(len, places.values())) > _LONGEST_USUAL:
        return False
    if sum(cell.columns == cell.rows == 1 for row in filled for cell in row) < _LEAST_SINGLE * sum(map(len, filled)):
        return False
    first = [row[0] for row in table.rows if row and row[0].columns == 1 and row[0] in places]
    return not first or not all(_MARKER.fullmatch("".join(text[place] for place in places[cell])) for cell in first)


def _is_code(table: Table, glyphs: Mapping[int, Glyph], text: str) -> bool:
    """Whether the text is in type of one width, in which words stand below one another without being columns."""
    letters = [glyphs[place] for place in table.cells if place in glyphs and text[place].isalpha()]
    widths = Counter(round((one.right - one.left) / max(one.top - one.bottom, 1.0), 2) for one in letters)
    return len(letters) >= _FEWEST_LETTERS and widths.most_common(1)[0][1] >= _CODE * len(letters)


def _mark_headings_by_colour(table: Table, boxes: Sequence[Box], glyphs: Mapping[int, Glyph]) -> None:
    """The first row names the columns if it is on a colour on which no other is."""
    places = table.places()
    rows = [row for row in ([glyphs[places[cell][0]] for cell in row if cell in places] for row in table.rows) if row]
    colours = {_colour_at(glyph, boxes) for glyph in rows[0]} if len(rows) > 1 else set()
    is_alone = not any(_colour_at(row[0], boxes) in colours for row in rows[1:])
    if len(colours) == 1 and None not in colours and is_alone:
        table.head(1)


def _colour_at(glyph: Glyph, boxes: Sequence[Box]) -> tuple[int, ...] | None:
    return next(
        (
            box.colour
            for box in reversed(boxes)
            if box.left <= glyph.left < box.right and box.bottom <= glyph.middle < box.top
        ),
        None,
    )
