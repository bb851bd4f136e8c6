"""Tables that a tagged PDF states itself, as Word, LibreOffice and browsers write them: rows, cells, spans, headings.

PDFium gives the structure of one page: of a table over several pages the rows of that page, the others as gaps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from realm_core.corpus.grid import Cell

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

_DEEPEST = 64
_LONGEST_TYPE = 64  # bytes of UTF-16
_WIDEST_SPAN, _HIGHEST_SPAN = 1000, 65534  # those of HTML
_GROUPS = frozenset(("THead", "TBody", "TFoot"))
_HEADINGS = frozenset(("H", "H1", "H2", "H3", "H4", "H5", "H6"))


@dataclass
class TaggedTable:
    """The rows of a table that are on one page.

    places:  of each row, (group, row) counted in the whole table, the same on every page.
    content: the cell of each piece of marked content.
    parts:   how many the whole table has, by which its rest is found on the next page.
    goes_on: rows of it are on an earlier page.
    """

    rows: list[list[Cell]] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    content: dict[int, Cell] = field(default_factory=dict)
    parts: int = 0
    goes_on: bool = False
    is_layout: bool = False


def tagged_tables(page: PdfPage, most_elements: int) -> tuple[list[TaggedTable], int]:
    """The tables of a page, and how many elements were looked at; no table if there are more than may be."""
    import pypdfium2.raw as pdfium

    tree = pdfium.FPDF_StructTree_GetForPage(page)
    if not tree:
        return [], 0
    reader = _Reader(most_elements)
    try:
        for number in range(pdfium.FPDF_StructTree_CountChildren(tree)):
            reader.left -= 1
            if reader.left < 0:
                break
            child = pdfium.FPDF_StructTree_GetChildAtIndex(tree, number)
            if child:
                reader.element(child, 0)
    finally:
        pdfium.FPDF_StructTree_Close(tree)
    found = [] if reader.left < 0 else [table for table in reader.tables if not table.is_layout and table.rows]
    return found, most_elements - max(reader.left, 0)


class _Reader:
    def __init__(self, most_elements: int) -> None:
        self.left = most_elements
        self.tables: list[TaggedTable] = []

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

    def _children(self, element: Any, depth: int) -> Iterator[tuple[int, Any, bool]]:
        """What is below an element: its place, the element if it has a part on this page, and whether it is one."""
        import pypdfium2.raw as pdfium

        for number in range(pdfium.FPDF_StructElement_CountChildren(element)):
            self.left -= 1
            if self.left < 0 or depth > _DEEPEST:
                return
            child = pdfium.FPDF_StructElement_GetChildAtIndex(element, number)
            content = -1 if child else pdfium.FPDF_StructElement_GetChildMarkedContentID(element, number)
            yield number, child or None, content < 0

    def _rows(self, element: Any, table: TaggedTable, group: int, depth: int) -> None:
        is_missing = False
        for number, child, is_element in self._children(element, depth):
            table.parts += 1
            if child is None:
                is_missing = is_missing or is_element
                continue
            kind = _type(child)
            if kind in _GROUPS:
                self._rows(child, table, number + 1, depth + 1)
            elif kind == "TR":
                table.goes_on = table.goes_on or is_missing
                table.places.append((group, number))
                table.rows.append(self._cells(child, table, depth + 1))
            else:  # a caption
                self.element(child, depth + 1)

    def _cells(self, row: Any, table: TaggedTable, depth: int) -> list[Cell]:
        cells: list[Cell] = []
        for _, child, is_element in self._children(row, depth):
            kind = _type(child) if child is not None else ""
            if kind in ("TH", "TD"):
                columns, rows = _span(child, b"ColSpan", _WIDEST_SPAN), _span(child, b"RowSpan", _HIGHEST_SPAN)
                cells.append(Cell("", kind == "TH", columns, rows))
                self._content(child, cells[-1], table, depth + 1)
            elif is_element and child is None:
                cells.append(Cell(""))  # empty, or on another page
        return cells

    def _content(self, element: Any, cell: Cell, table: TaggedTable, depth: int) -> None:
        import pypdfium2.raw as pdfium

        for number in range(pdfium.FPDF_StructElement_CountChildren(element)):
            self.left -= 1
            if self.left < 0 or depth > _DEEPEST:
                return
            child = pdfium.FPDF_StructElement_GetChildAtIndex(element, number)
            if not child:
                content = pdfium.FPDF_StructElement_GetChildMarkedContentID(element, number)
                if content >= 0:
                    table.content.setdefault(content, cell)
                continue
            kind = _type(child)
            if kind == "Table" or kind in _HEADINGS:
                table.is_layout = True
            if kind == "Table":
                self.element(child, depth + 1)
            else:
                self._content(child, cell, table, depth + 1)


def _type(element: Any) -> str:
    import pypdfium2.raw as pdfium

    buffer = ctypes.create_string_buffer(_LONGEST_TYPE)
    length = pdfium.FPDF_StructElement_GetType(element, buffer, _LONGEST_TYPE)
    return buffer.raw[: length - 2].decode("utf-16-le", "replace") if 2 < length <= _LONGEST_TYPE else ""


def _span(element: Any, name: bytes, most: int) -> int:
    import pypdfium2.raw as pdfium

    number = ctypes.c_float()
    for place in range(min(pdfium.FPDF_StructElement_GetAttributeCount(element), 16)):
        attribute = pdfium.FPDF_StructElement_GetAttributeAtIndex(element, place)
        value = pdfium.FPDF_StructElement_Attr_GetValue(attribute, name) if attribute else None
        if value and pdfium.FPDF_StructElement_Attr_GetNumberValue(value, number) and 1 <= number.value <= most:
            return int(number.value)
    return 1
