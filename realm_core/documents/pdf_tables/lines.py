"""Lines of a PDF's page in reading order, with a table in the place of its first one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import pypdfium2.raw as pdfium
from pypdfium2 import PdfTextPage

from realm_core.documents.pdf_tables.table import Table

_HYPHEN_OF_PDFIUM = re.compile("[\ufffe\x02]")  # stands for a hyphen at the end of a line
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"\S+")
_SPREAD = 0.55  # of the height, for each character: wider than type is set, even of one width
_GAP = 0.6  # of the height: between columns


@dataclass
class Line:
    """A line of a page, or a table.

    top, bottom, height: of its first character, in points from the page's lower edge.
    inside:              of a table: the lines that it consists of.
    is_aligned:          its words stand in three columns or more.
    """

    text: str
    top: float
    bottom: float
    height: float
    table: Table | None = None
    inside: list[Line] = field(default_factory=list)
    is_aligned: bool = False


def lines_of(page: PdfTextPage, text: str, tables: Iterable[Table]) -> list[Line]:
    """Lines of a page with this text that have a visible character."""
    owners = {place: table for table in tables for place in table.cells}
    for place, character in enumerate(text if owners else ""):
        if character.isspace() and place - 1 in owners:
            owners.setdefault(place, owners[place - 1])
    lines: list[Line] = []
    seen: dict[Table, Line] = {}
    position = 0  # PDFium counts the characters of a line break, too
    for raw in text.split("\n"):
        *divided, last = _HYPHEN_OF_PDFIUM.split(raw)  # of one line, in which PDFium has joined several
        for piece in [*(f"{one}-" for one in divided), last]:
            for owner, places in groupby(range(position, position + len(piece)), owners.get):
                run = list(places)
                line = _line(page, piece[run[0] - position : run[-1] + 1 - position], run[0])
                if line is None:
                    continue
                if owner is None:
                    lines.append(line)
                    continue
                if owner not in seen:
                    seen[owner] = Line("", line.top, line.bottom, line.height, owner)
                    lines.append(seen[owner])
                seen[owner].inside.append(line)
            position += len(piece)
        position += 1
    for table in seen.values():
        table.text = " ".join(line.text for line in table.inside)
    return lines


def _line(page: PdfTextPage, part: str, start: int) -> Line | None:
    words = _SPACE.sub(" ", part).strip()
    if not words:
        return None
    first = _box(page, start + len(part) - len(part.lstrip()))
    bottom, top = float(first.bottom), float(first.top)
    return Line(words, top, bottom, top - bottom, is_aligned=_is_aligned(page, part, start, first))


def _is_aligned(page: PdfTextPage, part: str, start: int, first: pdfium.FS_RECTF) -> bool:
    """Whether two gaps are wider than those between words."""
    height = float(first.top - first.bottom)
    length = len(part.rstrip())
    if _box(page, start + length - 1).right - first.left <= _SPREAD * height * length:
        return False  # prose, of which no more is looked at
    words = list(_WORD.finditer(part))
    gaps = 0
    for left, right in pairwise(words):
        gaps += _box(page, start + right.start()).left - _box(page, start + left.end() - 1).right > _GAP * height
    return gaps > 1


def _box(page: PdfTextPage, position: int) -> pdfium.FS_RECTF:
    """Of a character, in points; of one that has no place on the page, zeros."""
    box = pdfium.FS_RECTF()
    pdfium.FPDFText_GetLooseCharBox(page, position, box)
    return box


def with_tables_joined(pages: Sequence[list[Line]]) -> list[list[Line]]:
    """Pages with tables whole on the page on which they begin; what only looked like a part of one is text again."""
    joined: list[list[Line]] = []
    before: Table | None = None  # the last of the page before
    for lines in pages:
        place = next((number for number, line in enumerate(lines) if line.table is not None), -1)
        rest = lines[place].table if place >= 0 else None
        above = " ".join(line.text for line in lines[: max(place, 0)])
        if before is not None and rest is not None and (not above or before.begins_with(above)) and before.takes(rest):
            lines = lines[place + 1 :]
        joined.append(lines)
        before = lines[-1].table if lines else before
    return [
        [one for line in lines for one in ([line] if line.table is None or line.table.is_whole else line.inside)]
        for lines in joined
    ]
