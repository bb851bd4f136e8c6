"""Tables that a tagged PDF states itself, as Word, LibreOffice and browsers write them: rows, cells, spans, headings.

PDFium gives the structure of one page: of a table over several pages the rows of that page, the others as gaps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pypdfium2.raw as pdfium
from pypdfium2 import PdfPage

from realm_core.corpus.grid import HIGHEST_SPAN, WIDEST_SPAN, Cell
from realm_core.documents.pdf_tables.table import Table, TableBudget, add_to_row

_DEEPEST = 64
_LONGEST_TYPE = 64  # bytes of UTF-16
_GROUPS = frozenset(("THead", "TBody", "TFoot"))
_HEADINGS = frozenset(("H", "H1", "H2", "H3", "H4", "H5", "H6"))


@dataclass(eq=False)
class TaggedTable(Table):
    """The rows of a table that are on one page.

    positions: of each row, (group, row) counted in the whole table, the same on every page.
    content:   the cell of each piece of marked content.
    parts:     how many the whole table has, by which its rest is found on the next page.
    goes_on:   rows of it are on an earlier page.
    """

    positions: list[tuple[int, int]] = field(default_factory=list)
    content: dict[int, Cell] = field(default_factory=dict)
    parts: int = 0
    goes_on: bool = False
    is_layout: bool = False

    def takes(self, rest: Table) -> bool:
        last = self.positions[-1]
        if not isinstance(rest, TaggedTable) or not rest.goes_on:
            return False
        if self.parts != rest.parts or max(rest.positions) < last:
            return False
        for row, position, page in zip(rest.rows, rest.positions, rest.pages, strict=True):
            if position == last:
                add_to_row(self.rows[-1], row)
            elif position > last:  # else a heading that is repeated
                self.rows.append(row)
                self.pages.append(page)
                self.positions.append(position)
        return True


def tagged_tables(page: PdfPage, budget: TableBudget) -> list[TaggedTable]:
    """The tables of a page; none if there is more than may be looked at."""
    tree = pdfium.FPDF_StructTree_GetForPage(page)
    if not tree:
        return []
    reader = _TagReader(budget)
    try:
        for number in range(pdfium.FPDF_StructTree_CountChildren(tree)):
            if not reader.may_go_on(0):
                break
            if child := pdfium.FPDF_StructTree_GetChildAtIndex(tree, number):
                reader.element(child, 0)
    finally:
        pdfium.FPDF_StructTree_Close(tree)
    return [] if budget.is_spent else [table for table in reader.tables if not table.is_layout and table.rows]


class _TagReader:
    def __init__(self, budget: TableBudget) -> None:
        self._budget = budget
        self.tables: list[TaggedTable] = []

    def may_go_on(self, depth: int) -> bool:
        self._budget.elements -= 1
        return self._budget.elements >= 0 and depth <= _DEEPEST

    def element(self, element: Any, depth: int) -> None:
        """Look for tables below an element."""
        if _type(element) == "Table":
            table = TaggedTable()
            self.tables.append(table)
            self._rows(element, table, 0, depth + 1)
            return
        for _, child, _ in self._children(element, depth):
            if child is not None:
                self.element(child, depth + 1)

    def _children(self, element: Any, depth: int) -> Iterator[tuple[int, Any, int]]:
        """What is below an element: its place, the element if a part of it is on this page, else its content or -1."""
        for number in range(pdfium.FPDF_StructElement_CountChildren(element)):
            if not self.may_go_on(depth):
                return
            child = pdfium.FPDF_StructElement_GetChildAtIndex(element, number) or None
            yield number, child, -1 if child else pdfium.FPDF_StructElement_GetChildMarkedContentID(element, number)

    def _rows(self, element: Any, table: TaggedTable, group: int, depth: int) -> None:
        is_missing = False
        for number, child, content in self._children(element, depth):
            table.parts += 1
            if child is None:
                is_missing = is_missing or content < 0
                continue
            kind = _type(child)
            if kind in _GROUPS:
                self._rows(child, table, number + 1, depth + 1)
            elif kind == "TR":
                table.goes_on = table.goes_on or is_missing
                table.positions.append((group, number))
                table.rows.append(self._cells(child, table, depth + 1))
            else:  # a caption
                self.element(child, depth + 1)

    def _cells(self, row: Any, table: TaggedTable, depth: int) -> list[Cell]:
        cells: list[Cell] = []
        for _, child, content in self._children(row, depth):
            kind = _type(child) if child is not None else ""
            if kind in ("TH", "TD"):
                columns, rows = _span(child, b"ColSpan", WIDEST_SPAN), _span(child, b"RowSpan", HIGHEST_SPAN)
                cells.append(Cell("", kind == "TH", columns, rows))
                self._content(child, cells[-1], table, depth + 1)
            elif child is None and content < 0:
                cells.append(Cell(""))  # empty, or on another page
        return cells

    def _content(self, element: Any, cell: Cell, table: TaggedTable, depth: int) -> None:
        for _, child, content in self._children(element, depth):
            kind = _type(child) if child is not None else ""
            table.is_layout = table.is_layout or kind == "Table" or kind in _HEADINGS
            if content >= 0:
                table.content.setdefault(content, cell)
            elif kind == "Table":
                self.element(child, depth + 1)
            elif child is not None:
                self._content(child, cell, table, depth + 1)


def _type(element: Any) -> str:
    buffer = ctypes.create_string_buffer(_LONGEST_TYPE)
    length = pdfium.FPDF_StructElement_GetType(element, buffer, _LONGEST_TYPE)
    return buffer.raw[: length - 2].decode("utf-16-le", "replace") if 2 < length <= _LONGEST_TYPE else ""


def _span(element: Any, name: bytes, most: int) -> int:
    number = ctypes.c_float()
    for place in range(min(pdfium.FPDF_StructElement_GetAttributeCount(element), 16)):
        attribute = pdfium.FPDF_StructElement_GetAttributeAtIndex(element, place)
        value = pdfium.FPDF_StructElement_Attr_GetValue(attribute, name) if attribute else None
        if value and pdfium.FPDF_StructElement_Attr_GetNumberValue(value, number) and 1 <= number.value <= most:
            return int(number.value)
    return 1
