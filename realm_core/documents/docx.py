"""DOCX: an archive of XML; python-docx opens it, and its body is read in order, paragraphs and tables."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import docx
import lxml.etree
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.exceptions import OpcError
from docx.opc.oxml import parse_xml

from realm_core.corpus.grid import Cell
from realm_core.documents.draft import Draft
from realm_core.documents.records import Limits
from realm_core.errors import RealmError

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_R_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_CHUNK_BYTES = 1 << 18
_MOST_MEMBERS = 20_000
_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_MOST_COLUMNS = 63  # of a table in Word
_NOTES = ("footnotes", "endnotes")
_CONTAINERS = frozenset(f"{_W}{name}" for name in ("sdt", "sdtContent", "customXml", "ins", "moveTo", "smartTag"))
_LONGEST_BOLD_LINE = 120  # characters
_BELOW_STYLED = 10  # the level of a heading that no style makes one; styles have 1 to 9
_OFF = ("0", "false", "off")
_WORDS = {f"{_W}tab": " ", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}


def read_docx(path: Path, draft: Draft, limits: Limits) -> None:
    """Read title, language, headings, paragraphs, lists, tables and notes, not what is marked as deleted."""
    content = path.read_bytes()
    _check_archive(content, limits)
    try:
        document = docx.Document(io.BytesIO(content))
        if _has_properties(document):
            draft.title = document.core_properties.title or ""
            draft.language = document.core_properties.language or ""
        draft.language = draft.language or _default_language(document)
        reader = _Body(document, draft)
        reader.read(document.element.body)
        reader.read_notes()
    # python-docx trusts a file's own description: missing parts, and parts of another kind, raise any of these.
    except (OpcError, LookupError, ValueError, TypeError, AttributeError, lxml.etree.LxmlError) as error:
        raise RealmError(f"is no whole DOCX file: {_reason(error)}.") from error


def _has_properties(document: Any) -> bool:
    """Whether the file has properties of its own, which not all programs write; python-docx would add some."""
    return any(one.reltype == RELATIONSHIP_TYPE.CORE_PROPERTIES for one in document.part.package.rels.values())


def _check_archive(content: bytes, limits: Limits) -> None:
    """Decompress everything once, and count: what an archive says of its own sizes may be wrong on purpose."""
    name, unpacked = "", 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise RealmError(f"is an archive of {len(members):,} files, more than any DOCX has.")
            for member in members:
                name = member.filename
                if member.flag_bits & 1:
                    raise RealmError(f"is encrypted ({name}); save it without a password.")
                with archive.open(member) as file:
                    while chunk := file.read(_CHUNK_BYTES):
                        unpacked += len(chunk)
                        if unpacked > limits.unpacked_bytes:
                            limit = f"{limits.unpacked_bytes / (1 << 20):,.0f} MiB"
                            raise RealmError(f"holds more than {limit} when unpacked, which is the limit.")
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, OSError) as error:
        part = f" in {name}" if name else ""
        raise RealmError(f"is a damaged or truncated DOCX file{part}: {_reason(error)}.") from None


def _default_language(document: Any) -> str:
    language = document.styles.element.find(f"{_W}docDefaults//{_W}lang")
    return "" if language is None else str(language.get(f"{_W}val") or "")


def _reason(error: Exception) -> str:
    return str(error).strip("'\". ") or type(error).__name__


class _Body:
    """Paragraphs and tables in order, also those in content controls and marked as inserted."""

    def __init__(self, document: Any, draft: Draft) -> None:
        self._document = document
        self._draft = draft
        self._targets = _link_targets(document.part)
        self._notes = {kind: dict(_notes(document, kind)) for kind in _NOTES}
        self._titled = False
        self._levels: dict[str, int] = {}  # heading styles; 0 is the title's
        self._lists: set[str] = set()  # list styles
        for style in document.styles.element.iterchildren(f"{_W}style"):
            name = style.find(f"{_W}name")
            words = "" if name is None else str(name.get(f"{_W}val")).lower()
            identity = str(style.get(f"{_W}styleId"))
            if words == "title":
                self._levels[identity] = 0
            elif match := _HEADING.fullmatch(words):
                self._levels[identity] = int(match[1])
            elif words.startswith("list"):
                self._lists.add(identity)

    def read(self, parent: Any) -> None:
        for child in parent:
            if child.tag == f"{_W}p":
                self._paragraph(child)
            elif child.tag == f"{_W}tbl":
                self._links(child)
                self._draft.table(list(_rows(child)))
                self._footnotes(child)
            elif child.tag in _CONTAINERS:
                self.read(child)

    def read_notes(self) -> None:
        """Endnotes, and the footnotes to which nothing refers, behind the text."""
        for kind, notes in self._notes.items():
            if notes:
                self._draft.heading(1, kind.capitalize(), stated=False)
            for text in notes.values():
                self._draft.paragraph(text)

    def _footnotes(self, parent: Any) -> None:
        """Footnotes, behind the paragraph or table that refers to them: at the end they have no context."""
        for mark in parent.iter(f"{_W}footnoteReference"):
            self._draft.paragraph(self._notes["footnotes"].pop(str(mark.get(f"{_W}id")), ""))

    def _paragraph(self, paragraph: Any) -> None:
        text = _text(paragraph)
        properties = paragraph.find(f"{_W}pPr")
        style_element = None if properties is None else properties.find(f"{_W}pStyle")
        style = "" if style_element is None else str(style_element.get(f"{_W}val"))
        level = self._levels.get(style)
        is_item = style in self._lists or (properties is not None and properties.find(f"{_W}numPr") is not None)
        self._links(paragraph)
        if level == 0 and text.strip() and not self._titled:
            self._draft.title = text  # set on purpose; that of the file's properties is often its template's
            self._titled = True
        elif level is not None:
            self._draft.heading(level, text)
        elif is_item:
            self._draft.item(text)
        elif _stands_as_heading(paragraph):
            self._draft.heading(_BELOW_STYLED, text)
        else:
            self._draft.paragraph(text)
        self._footnotes(paragraph)

    def _links(self, parent: Any) -> None:
        for link in parent.iter(f"{_W}hyperlink"):
            self._draft.link(self._targets.get(link.get(_R_ID), ""))


def _notes(document: Any, kind: str) -> Iterator[tuple[str, str]]:
    """Id and text of each footnote or endnote."""
    for relation in document.part.rels.values():
        if relation.is_external or relation.reltype.rpartition("/")[2] != kind:
            continue
        for note in parse_xml(relation.target_part.blob):
            text = "\n".join(_text(one) for one in note.iter(f"{_W}p")).strip()
            if text and note.get(f"{_W}type") in (None, "normal"):
                yield str(note.get(f"{_W}id")), text


def _stands_as_heading(paragraph: Any) -> bool:
    """Whether a paragraph is what many write in the place of a heading: one short bold line above what is not bold."""
    words = _text(paragraph).strip()
    if "\n" in words or len(words) > _LONGEST_BOLD_LINE or words[-1:] in ".;," or not _is_bold(paragraph):
        return False
    below = next((one for one in paragraph.itersiblings() if one.tag != f"{_W}p" or _text(one).strip()), None)
    return below is not None and below.tag in (f"{_W}p", f"{_W}tbl") and not _is_bold(below)


def _is_bold(element: Any) -> bool:
    runs = [run for run in element.iter(f"{_W}r") if _text(run).strip()]
    marks = [run.find(f"{_W}rPr/{_W}b") for run in runs]
    return bool(runs) and all(mark is not None and mark.get(f"{_W}val") not in _OFF for mark in marks)


def _all_bold(row: Any) -> bool:
    """Whether every cell of a row that has words is bold, and more than one has."""
    cells = [cell for cell in row.iterchildren(f"{_W}tc") if _text(cell).strip()]
    return len(cells) > 1 and all(map(_is_bold, cells))


def _link_targets(part: Any) -> dict[str, str]:
    return {key: str(relation.target_ref) for key, relation in part.rels.items() if relation.is_external}


def _text(element: Any) -> str:
    """The words of a paragraph or cell, text boxes too; what stands there for older programs alone is left out."""
    parts: list[str] = []
    for child in element:
        if child.tag == f"{_W}t":
            parts.append(child.text or "")
        elif child.tag in _WORDS:
            parts.append(_WORDS[child.tag])
        elif child.tag not in (_FALLBACK, f"{_W}del", f"{_W}moveFrom", f"{_W}pPr"):
            parts.append(_text(child))
            if child.tag == f"{_W}p":
                parts.append("\n")
    return "".join(parts)


def _rows(table: Any) -> Iterator[list[Cell]]:
    """The cells of each row. The first row heads its columns if it is marked so, or bold above one that is not."""
    first = list(islice(table.iterchildren(f"{_W}tr"), 2))
    is_bold = len(first) == 2 and _all_bold(first[0]) and not _all_bold(first[1])
    heads_first = is_bold or table.find(f"{_W}tr/{_W}trPr/{_W}tblHeader") is not None
    # By its first column: a cell of the row above, which the next row may continue.
    merged: dict[int, Cell] = {}
    for number, row in enumerate(table.iter(f"{_W}tr")):
        if next(row.iterancestors(f"{_W}tbl")) is not table:
            continue  # of a table within a cell, whose words are that cell's
        before = _number(row, "trPr", "gridBefore", 0)
        cells = [Cell("", columns=before)] if before else []
        column, above, merged = before, merged, {}
        for element in row.iter(f"{_W}tc"):
            if next(element.iterancestors(f"{_W}tr")) is not row:
                continue
            columns = _number(element, "tcPr", "gridSpan", 1) or 1
            merge = element.find(f"{_W}tcPr/{_W}vMerge")
            if merge is not None and merge.get(f"{_W}val") != "restart" and column in above:
                cell = above[column]
                cell.rows += 1
            else:
                cell = Cell(_text(element), heads_first and number == 0, columns)
                cells.append(cell)
            if merge is not None:
                merged[column] = cell
            column += columns
        yield cells


def _number(element: Any, properties: str, name: str, absent: int) -> int:
    """A number of columns that a row or cell states."""
    stated = element.find(f"{_W}{properties}/{_W}{name}")
    return absent if stated is None else min(max(int(stated.get(f"{_W}val") or absent), 0), _MOST_COLUMNS)
