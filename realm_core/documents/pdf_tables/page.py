"""Tables of a PDF's page: found by its tags or by what is drawn, with the text of their cells.

A table that is found by neither is text, as it is written.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence

import pypdfium2.raw as pdfium
from pypdfium2 import PdfPage, PdfTextPage

from realm_core.corpus.grid import Cell
from realm_core.documents.pdf_tables.ruled import ruled_tables
from realm_core.documents.pdf_tables.segments import visible
from realm_core.documents.pdf_tables.table import Table, TableBudget
from realm_core.documents.pdf_tables.tags import TaggedTable, tagged_tables

_MOST_SPACES = 8  # between two characters of a cell
_LONGEST_NAME = 256
_FORCE_BOLD = 1 << 18
_BOLD = re.compile(rb"(?i:bold|black|heavy|demi)|BX|-Bd|,B")
_HYPHEN_OF_PDFIUM = "\ufffe\x02"


def page_tables(page: PdfPage, text_page: PdfTextPage, text: str, number: int, budget: TableBudget) -> list[Table]:
    if budget.is_spent or not text:
        return []
    tagged = tagged_tables(page, budget)
    if tagged:
        budget.characters -= len(text)
        tables = _with_characters(tagged, text_page, text)
    else:
        tables = ruled_tables(page, text_page, text, budget)
    for table in tables:
        table.pages = [number] * len(table.rows)
        _fill_cells(text, table.cells)
        if not any(cell.heads for row in table.rows for cell in row):
            _mark_bold_headings(table, text_page)
    return tables


def _with_characters(tagged: Sequence[TaggedTable], text_page: PdfTextPage, text: str) -> list[Table]:
    """The tables that have text on the page, in several columns: one is no table, but perhaps a box of paragraphs."""
    owners = {content: (table, cell) for table in tagged for content, cell in table.content.items()}
    known: dict[int, int] = {}  # by the address of a text object
    for place, _, drawn in visible(text_page, text):
        address = ctypes.addressof(drawn.contents)
        if address not in known:
            known[address] = pdfium.FPDFPageObj_GetMarkedContentID(drawn)
        if found := owners.get(known[address]):
            table, cell = found
            table.cells[place] = cell
    return [one for one in tagged if one.cells and max(sum(cell.columns for cell in row) for row in one.rows) > 1]


def _fill_cells(text: str, cells: Mapping[int, Cell]) -> None:
    """Put each character into its cell, lines divided by line breaks; spaces go with what stands before them."""
    pieces: dict[Cell, list[str]] = {}
    last, last_place = None, -1
    for place, cell in sorted(cells.items()):
        between = text[last_place + 1 : place] if last is not None and place - last_place <= _MOST_SPACES else "\n"
        if last is not None and between.isspace():
            pieces[last].append(between)
        words = pieces.setdefault(cell, [])
        if words and (cell is not last or (between and not between.isspace())):
            words.append("\n")
        words.append("-\n" if text[place] in _HYPHEN_OF_PDFIUM else text[place])
        last, last_place = cell, place
    for cell, words in pieces.items():
        lines = "".join(words).replace("\r", "\n").split("\n")
        cell.text = "\n".join(line for line in map(str.strip, lines) if line)


def _mark_bold_headings(table: Table, text_page: PdfTextPage) -> None:
    """The first rows name the columns if they are in bold type and others are not."""
    places = table.places()
    headings = 0
    for row in table.rows:
        ends = [place for cell in row if cell in places for place in (places[cell][0], places[cell][-1])]
        if not ends or not all(_is_bold(text_page, place) for place in ends):
            break
        headings += 1
    if headings < len(table.rows):
        table.head(headings)


def _is_bold(text_page: PdfTextPage, place: int) -> bool:
    name, flags = ctypes.create_string_buffer(_LONGEST_NAME), ctypes.c_int()
    index = pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, place)
    length = pdfium.FPDFText_GetFontInfo(text_page, index, name, _LONGEST_NAME, flags)
    return bool(flags.value & _FORCE_BOLD) or (length <= _LONGEST_NAME and bool(_BOLD.search(name.value)))
