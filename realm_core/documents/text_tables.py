"""Tables in plain text: lines divided by tabs, as a spreadsheet or a browser pastes them, and tables of Markdown.

Text that only holds tabs or bars is none: listings, lists, indented paragraphs, prose with a stray tab.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from realm_core.corpus.grid import Cell


@dataclass(frozen=True)
class TabTable:
    """Lines that tabs divide into as many cells each."""

    rows: list[list[Cell]]


@dataclass(frozen=True)
class MarkdownTable:
    """The lines of a table of Markdown: names, dashes, rows."""

    text: str


# Spreadsheets quote a cell that holds a line break, a tab or a quotation mark.
_CELL = r'(?:"(?:[^"]|""){0,5000}+"(?=[\t\n]|\Z)|[^\t\n]*+)'
_ROW = re.compile(rf"{_CELL}(?:\t{_CELL})+(?=\n|\Z)")
_CELLS = re.compile(rf"(?:^|\t)({_CELL})")
_QUOTED = re.compile(r'"(.*[\t\n"].*)"', re.DOTALL)
_DASHES = re.compile(r"^ {0,3}\|?[ \t]*:?-+:?[ \t]*\|[ \t|:-]*$", re.MULTILINE)
_MARK = re.compile(r"[^\w\s]|o|\(?(?:\d{1,3}(?:\.\d{1,3})*|[a-z]|[ivxl]+)[.)]|\d{1,3}(?:\.\d{1,3})+", re.IGNORECASE)
_END_OF_CODE = re.compile(r"[;{},\\]\s*$")
_COMMENT_OR_VALUE = re.compile(r"//|/\*|#\s|#(?:define|if|include)|--\s|[:+]?=\s")
_END_OF_SENTENCE = re.compile(r"[.!?]$")
_FEWEST_WORDS = 4  # of a sentence; with fewer its point may be that of an abbreviation
_LONGEST_NAME = 5  # words in the first cell of a row of two


def parts(text: str) -> Iterator[str | TabTable | MarkdownTable]:
    """The tables of a text and what stands between them, in order."""
    start = 0
    for first, last, table in _markdown_tables(text):
        yield from _tab_tables(text[start:first])
        yield table
        start = last
    yield from _tab_tables(text[start:])


def _markdown_tables(text: str) -> Iterator[tuple[int, int, MarkdownTable]]:
    """(where it begins, where it ends, table), as the parser of Markdown has it."""
    if not _DASHES.search(text):
        return
    from markdown_it import MarkdownIt  # which most plain texts do not need

    lines = [f"{line}\n" for line in text.split("\n")]
    places = [0]
    for line in lines:
        places.append(places[-1] + len(line))
    parser = MarkdownIt("zero").enable(["table", "code"]).disable("inline")
    for token in parser.parse(text):
        if token.type == "table_open" and token.map:
            first, last = token.map
            # For Markdown any text belongs to a table that no blank line divides from it.
            last = next((number for number in range(first, last) if "|" not in lines[number]), last)
            if last - first > 2:
                yield places[first], places[last], MarkdownTable("".join(lines[first:last]))


def _tab_tables(text: str) -> Iterator[str | TabTable]:
    """The tables of tabs, and what stands between them."""
    prose: list[str] = []
    for width, run in groupby(_lines(text), key=lambda line: len(line[1])):
        lines = list(run)
        rows = [cells for _, cells in lines]
        if width > 1 and _is_table(rows):
            if prose:
                yield "".join(prose)
                prose.clear()
            yield TabTable([[Cell(text) for text in row] for row in _without_blank_columns(rows)])
        else:
            prose += [line for line, _ in lines]
    if prose:
        yield "".join(prose)


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each line, with its line break, and its cells; a row of a table with line breaks in its cells is one line."""
    start = 0
    while start < len(text):
        row = _ROW.match(text, start)
        end = row.end() if row else text.find("\n", start)
        end = len(text) if end < 0 else end
        cells = [_unquoted(cell.strip()) for cell in _CELLS.findall(row[0])] if row else [""]
        yield text[start : end + 1], cells
        start = end + 1


def _unquoted(cell: str) -> str:
    quoted = _QUOTED.fullmatch(cell)
    return quoted[1].replace('""', '"') if quoted else cell


def _is_table(rows: Sequence[Sequence[str]]) -> bool:
    """Whether lines that tabs divide alike are a table: most have several cells, and few look like code or prose.

    Prose is garbled as a table, and a table as prose is still read line by line, so a quarter of prose is enough.
    """
    filled = [row for row in rows if any(row)]
    if not any(row[0] for row in filled):  # indented
        return False
    with_cells = [row for row in filled if _is_row(row)]
    code = [row for row in filled if _is_code(row)]
    prose = [row for row in filled if _is_prose(row)]
    few = len(code) * 2 < len(filled) and len(prose) * 4 < len(filled)
    return len(with_cells) > 1 and len(with_cells) * 2 > len(filled) and few


def _is_row(row: Sequence[str]) -> bool:
    """Whether a line has several cells: the mark of an item of a list is none, and a tab in prose divides none."""
    cells = [cell for cell in row if cell]
    if len(cells) == 2 and row[0]:
        marked = _MARK.fullmatch(cells[0]) and any(map(str.isalpha, cells[1]))
        return not marked and not _is_prose(row)
    return len(cells) > 1


def _is_prose(row: Sequence[str]) -> bool:
    """Whether a line with one tab is prose: a clause stands before it, or more words than name a row, or a sentence
    goes on behind it."""
    cells = [cell for cell in row if cell]
    if len(cells) != 2 or not row[0]:
        return False
    before, behind = cells
    words = len(before.split())
    clause = before[-1] in ",;" or (_END_OF_SENTENCE.search(before) and words >= _FEWEST_WORDS)
    long = words > _LONGEST_NAME and any(map(str.isalpha, behind))  # “Inhabitants at the end of the year 717,710”
    goes_on = behind[0].islower() and _END_OF_SENTENCE.search(behind) and words + len(behind.split()) >= _FEWEST_WORDS
    return bool(clause or long or goes_on)


def _is_code(row: Sequence[str]) -> bool:
    cells = [cell for cell in row if cell]
    return bool(_END_OF_CODE.search(cells[-1]) or any(_COMMENT_OR_VALUE.match(cell) for cell in cells))


def _without_blank_columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows without columns that are blank in all: programs align with several tabs."""
    kept = [column for column, cells in enumerate(zip(*rows, strict=True)) if any(cells)]
    return [[row[column] for column in kept] for row in rows]
