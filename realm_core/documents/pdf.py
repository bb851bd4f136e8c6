"""PDF: pypdfium2 gives the text of each page; lines become paragraphs again, and every section keeps its page.

Headings are the entries of the outline that stand on a page, or, where there is no outline, lines in larger type than
most text. What repeats at the top or bottom of most pages is no text of the document.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import pypdfium2.raw as pdfium
from pypdfium2 import PdfDocument, PdfiumError, PdfPage

from realm_core.corpus.prose import sentence
from realm_core.documents.draft import Draft
from realm_core.documents.pdf_tables.lines import Line, lines_of, with_tables_joined
from realm_core.documents.pdf_tables.page import page_tables
from realm_core.documents.pdf_tables.table import Table, TableBudget
from realm_core.documents.records import Limits
from realm_core.errors import RealmError

_END_WITHIN = 4096  # bytes, zeros that pad the file not counted; readers look for the end mark in the last 1,024
_EDGE_LINES = 1  # at the top and at the bottom of a page, that may be running headers and footers
_REPEATED_SHARE = 0.5  # of the pages
_FEWEST_PAGES = 3  # to tell what repeats
_RUNNING_ROWS = 2  # of a table that may be a running header
_LARGER = 1.15  # than most of the text: a heading
_LONGEST_HEADING = 150
_HEADING_LINES = 3
_LINE_OF_A_HEADING = 1.8  # at most, from one line of a heading to its next: of the height of its type
_SAME_SIZE = 0.97
_GAP = 1.4  # of the usual distance between lines: a new paragraph
_SHORT_LINE = 0.8  # of the longest usual line: its paragraph may end there
_DEEPEST_OUTLINE = 8
_MOST_OUTLINE = 10_000
_PAGES_NAMED = 5  # at most, in a warning

_NUMBER = re.compile(r"\d+|\b[ivxlc]{1,6}\b")
_HYPHENATED = re.compile(r"(?P<left>[^\W\d_]+)-(?P<right>[^\W\d_]+)")
_LEFT_OF_HYPHEN = re.compile(r"([^\W\d_]+)-$")
_RIGHT_OF_HYPHEN = re.compile(r"[^\W\d_]+")
_SENTENCE_ENDS = re.compile(r"[.!?:…][\"'”’»)\]]*$")
_REST_OF_SENTENCE = re.compile(r".*?[.!?…][\"'”’»)\]]*(?=\s|$)", re.DOTALL)
_ITEM = re.compile(r"(?:[•‣▪●◦*]|[-–](?=\s))\s*")
_NUMBERED = re.compile(r"\(?(?:\d{1,2}|[a-z])[.)]\s")
_A_WORD = re.compile(r"[^\W\d_]{4}")
_MADE_TITLE = re.compile(
    r"(?:microsoft (?:word|powerpoint|excel) ?-|about:|(?:untitled|unbenannt)[\s\d-]*$|"
    r"\S+\.(?:docx?|xlsx?|pptx?|pdf|tex|dvi|indd|html?)$)",
    re.IGNORECASE,
)


@dataclass
class _Paragraph:
    """level: of a heading; 0 for text. table: in the place of text."""

    text: str
    level: int = 0
    table: Table | None = None


def read_pdf(path: Path, draft: Draft, limits: Limits) -> None:
    """Read title, language, headings, paragraphs and links of every page."""
    content = path.read_bytes()
    _check_end(content)
    try:
        document = PdfDocument(content)
    except PdfiumError as error:
        if error.err_code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
            raise RealmError("is encrypted; save it without a password.") from None
        raise RealmError(f"is a damaged PDF: {_reason(error)}.") from None
    with closing(document):
        _read_document(document, draft, limits)


def _check_end(content: bytes) -> None:
    """PDFium mends a file that was cut off, and would read its first pages as if they were all."""
    if b"%%EOF" not in content.rstrip(b"\0\r\n \t")[-_END_WITHIN:]:
        raise RealmError(f"is a truncated PDF: its end mark is missing behind byte {len(content):,}.")


def _read_document(document: PdfDocument, draft: Draft, limits: Limits) -> None:
    count = len(document)
    if count > limits.pages:
        raise RealmError(f"has {count:,} pages, more than the limit of {limits.pages:,}.")
    metadata = document.get_metadata_dict(skip_empty=True)
    draft.title = _usable_title(str(metadata.get("Title", "")))
    draft.language = _language(document)
    pages: list[list[Line]] = []
    characters = 0
    budget = TableBudget()
    for number in range(count):
        try:
            with closing(document[number]) as page, closing(page.get_textpage()) as text_page:
                text = text_page.get_text_range() if text_page.count_chars() > 0 else ""
                is_spent = budget.is_spent
                tables = page_tables(page, text_page, text, number + 1, budget)
                if budget.is_spent and not is_spent:
                    draft.warn(
                        f"Its pages are too full for all of its tables: behind page {number + 1:,} they are text."
                    )
                pages.append(lines_of(text_page, text, tables))
                for url in _links(document, page):
                    draft.link(url)
        except PdfiumError as error:
            raise RealmError(f"cannot be read beyond page {number + 1:,} of {count:,}: {_reason(error)}.") from None
        characters += sum(len(line.text) for line in pages[-1])
        if characters > limits.characters:
            raise RealmError(f"holds more than {limits.characters:,} characters of text, which is the limit.")
    _warn_of_blank(pages, draft)
    levels = _Levels(pages, _outline(document))
    draft.title = draft.title or levels.largest_of(pages[0])
    _fill(with_tables_joined(_without_running_lines(pages)), levels, draft)


def _warn_of_blank(pages: Sequence[Sequence[Line]], draft: Draft) -> None:
    blank = [number for number, lines in enumerate(pages, 1) if not lines]
    count = len(pages)
    if len(blank) == count:
        on_pages = "its page" if count == 1 else f"its {count:,} pages"
        raise RealmError(f"holds no text on {on_pages}; it is probably scanned. Recognise its text (OCR) first.")
    if blank:
        named = ", ".join(map(str, blank[:_PAGES_NAMED])) + (", …" if len(blank) > _PAGES_NAMED else "")
        draft.warn(f"{len(blank):,} of {count:,} pages hold no text ({named}); they may be scanned.")


def _usable_title(title: str) -> str:
    """The stated title; empty if it is one that programs write by themselves."""
    title = title.strip()
    return "" if _MADE_TITLE.match(title) else title


def _language(document: PdfDocument) -> str:
    length = pdfium.FPDFCatalog_GetLanguage(document, None, 0)
    if not 2 < length < 256:
        return ""
    buffer = ctypes.create_string_buffer(length)
    pdfium.FPDFCatalog_GetLanguage(document, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), length)
    return buffer.raw[:length].decode("utf-16-le", "ignore").rstrip("\0")


def _links(document: PdfDocument, page: PdfPage) -> Iterator[str]:
    position, link = ctypes.c_int(0), pdfium.FPDF_LINK()
    while pdfium.FPDFLink_Enumerate(page, ctypes.byref(position), ctypes.byref(link)):
        action = pdfium.FPDFLink_GetAction(link)
        if not action:
            continue
        length = pdfium.FPDFAction_GetURIPath(document, action, None, 0)
        if length > 1:
            buffer = ctypes.create_string_buffer(length)
            pdfium.FPDFAction_GetURIPath(document, action, buffer, length)
            yield buffer.value.decode("utf-8", "replace")


def _outline(document: PdfDocument) -> dict[tuple[int, str], int]:
    """(page from 0, title's letters) → level from 1."""
    levels: dict[tuple[int, str], int] = {}
    try:
        for number, bookmark in enumerate(document.get_toc(max_depth=_DEEPEST_OUTLINE)):
            destination = bookmark.get_dest()
            page = None if destination is None else destination.get_index()
            if number >= _MOST_OUTLINE:
                break
            if page is not None:
                levels.setdefault((page, _letters(bookmark.get_title())), bookmark.level + 1)
    except PdfiumError:
        return {}
    return levels


def _letters(text: str) -> str:
    """The letters of a heading, the same however it is spaced and numbered."""
    return "".join(character for character in text.casefold() if character.isalpha())


class _Levels:
    """Which lines are headings, and of which level."""

    def __init__(self, pages: Sequence[Sequence[Line]], outline: dict[tuple[int, str], int]) -> None:
        present = {(number, _letters(line.text)) for number, lines in enumerate(pages) for line in lines}
        self._outline = {key: level for key, level in outline.items() if key in present and key[1]}
        weights: Counter[float] = Counter()
        for lines in pages:
            for line in lines:
                weights[round(line.height, 1)] += len(line.text)
        self._usual = weights.most_common(1)[0][0] if weights else 0.0
        larger = sorted((height for height in weights if height > self._usual * _LARGER), reverse=True)
        self._by_height = {height: min(rank, 6) for rank, height in enumerate(larger, 1)}

    def largest_of(self, lines: Sequence[Line]) -> str:
        """The text in the largest type, which on the first page is the title; "" if all is of one size."""
        height = max((line.height for line in lines), default=0.0)
        if height <= self._usual * _LARGER:
            return ""
        largest: list[Line] = []
        for line in lines:
            is_large = line.table is None and line.height > height * _SAME_SIZE
            if largest and not (is_large and _is_next_line(largest[-1], line)):
                break  # below other text, as large a line is a heading
            if is_large:
                largest.append(line)
        title = " ".join(line.text for line in largest[:_HEADING_LINES])
        return title if len(title) <= _LONGEST_HEADING and any(map(str.isalpha, title)) else ""

    def of(self, page: int, line: Line) -> int:
        """0 for text."""
        if line.table is not None:
            return 0
        if self._outline:
            return self._outline.get((page, _letters(line.text)), 0)
        level = self._by_height.get(round(line.height, 1), 0)
        is_heading = len(line.text) <= _LONGEST_HEADING and any(map(str.isalpha, line.text))
        return level if is_heading and line.text[-1] not in ".,;" else 0


def _without_running_lines(pages: Sequence[list[Line]]) -> list[list[Line]]:
    """Pages without what stands at the edge of most of them, or, as the name of a chapter, of several.

    If nothing else is left, it is the text.
    Numbers may differ; so what is hardly more than a number must stand on most pages, for it might be a table's.
    """
    seen = Counter(key for lines in pages for key in {_running(line) for line in _edges(lines)})
    most = max(_FEWEST_PAGES, len(pages) * _REPEATED_SHARE)
    running = {key for key, times in seen.items() if times >= (_FEWEST_PAGES if _A_WORD.search(key) else most)}
    kept = []
    for lines in pages:
        edges = {id(line) for line in _edges(lines) if line.table is None or len(line.table.rows) <= _RUNNING_ROWS}
        kept.append([line for line in lines if id(line) not in edges or _running(line) not in running])
    return kept if any(kept) else list(pages)


def _edges(lines: Sequence[Line]) -> list[Line]:
    """The uppermost and lowermost lines; a page's text need not be in that order."""
    by_height = sorted(lines, key=lambda line: -line.top)
    return by_height[:_EDGE_LINES] + by_height[_EDGE_LINES:][-_EDGE_LINES:]


def _running(line: Line) -> str:
    return _NUMBER.sub("#", line.text.casefold())


def _fill(pages: Sequence[Sequence[Line]], levels: _Levels, draft: Draft) -> None:
    """Paragraphs and headings of all pages. The end of a sentence comes back to the page on which it began."""
    compounds = {match[0].casefold() for lines in pages for line in lines for match in _HYPHENATED.finditer(line.text)}
    ready = [_paragraphs(number, lines, levels, compounds) for number, lines in enumerate(pages)]
    previous: _Paragraph | None = None
    for paragraphs in ready:
        if previous is not None and paragraphs:
            _complete(previous, paragraphs[0], compounds)
        previous = next((one for one in reversed(paragraphs) if one.text), previous if not paragraphs else None)
    for number, paragraphs in enumerate(ready, 1):
        for paragraph in paragraphs:
            if paragraph.table is not None:
                _fill_table(paragraph.table, compounds, draft)
            elif paragraph.level:
                draft.heading(paragraph.level, paragraph.text)
            elif item := _ITEM.match(paragraph.text):
                draft.paragraph(sentence(paragraph.text[item.end() :]), number)
            else:
                draft.paragraph(paragraph.text, number)


def _fill_table(table: Table, compounds: set[str], draft: Draft) -> None:
    rows = [[replace(cell, text=_joined(cell.text.split("\n"), compounds)) for cell in row] for row in table.rows]
    draft.table(rows, table.pages)


def _complete(last: _Paragraph, first: _Paragraph, compounds: set[str]) -> None:
    """Move the rest of a sentence from the top of a page to the end of the one before."""
    if last.level or first.level or _SENTENCE_ENDS.search(last.text) or not first.text[:1].islower():
        return
    rest = _REST_OF_SENTENCE.match(first.text)
    moved = rest[0] if rest else first.text
    last.text = _joined([last.text, moved], compounds)
    first.text = first.text[len(moved) :].lstrip()


def _paragraphs(page: int, lines: Sequence[Line], levels: _Levels, compounds: set[str]) -> list[_Paragraph]:
    gaps = [above.bottom - below.bottom for above, below in pairwise(lines)]
    usual_gap = median([gap for gap in gaps if gap > 0] or [0.0])
    full = max((len(line.text) for line in lines), default=0) * _SHORT_LINE
    paragraphs: list[_Paragraph] = []
    parts: list[str] = []
    above: Line | None = None
    for line in lines:
        level = levels.of(page, line)
        gap = 0.0 if above is None else above.bottom - line.bottom
        if (
            level
            and paragraphs
            and paragraphs[-1].level == level
            and not parts
            and above
            and _is_next_line(above, line)
        ):
            paragraphs[-1].text += f" {line.text}"  # a heading of two lines
        elif level:
            _close(parts, paragraphs, compounds)
            paragraphs.append(_Paragraph(line.text, level))
        elif line.table is not None:
            _close(parts, paragraphs, compounds)
            paragraphs.append(_Paragraph("", table=line.table))
        else:
            ended = above is not None and _SENTENCE_ENDS.search(above.text) and len(above.text) < full
            aligned = line.is_aligned or (above is not None and above.is_aligned)
            begins = aligned or _ITEM.match(line.text) or _NUMBERED.match(line.text)
            if begins or ended or (usual_gap and gap > usual_gap * _GAP):
                _close(parts, paragraphs, compounds)
            parts.append(line.text)
        above = line
    _close(parts, paragraphs, compounds)
    return paragraphs


def _is_next_line(above: Line, line: Line) -> bool:
    """Whether a line of a heading goes on in the next one."""
    return 0 < above.bottom - line.bottom < line.height * _LINE_OF_A_HEADING


def _close(parts: list[str], paragraphs: list[_Paragraph], compounds: set[str]) -> None:
    if parts:
        paragraphs.append(_Paragraph(_joined(parts, compounds)))
        parts.clear()


def _joined(lines: Sequence[str], compounds: set[str]) -> str:
    pieces: list[str] = []
    for line in lines:
        if pieces:
            pieces[-1:] = _seam(pieces[-1], line, compounds)
        pieces.append(line)
    return "".join(pieces)


def _seam(left: str, right: str, compounds: set[str]) -> list[str]:
    """The end of a line as it stands before the next: without the hyphen of a divided word, or with a space."""
    divided, follows = _LEFT_OF_HYPHEN.search(left), _RIGHT_OF_HYPHEN.match(right)
    if divided is None or follows is None:
        return [left, "" if left.endswith(("-", "–")) and right[:1].isdigit() else " "]
    compound = f"{divided[1]}-{follows[0]}".casefold()
    if compound in compounds or not follows[0][0].islower():
        return [left]
    return [left[:-1]]


def _reason(error: Exception) -> str:
    return str(error).strip(" .").removeprefix("Failed to ") or type(error).__name__
