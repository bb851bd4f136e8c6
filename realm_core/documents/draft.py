"""A document while it is being read: headings open sections, paragraphs fill them, limits are kept.

Tables and lists become sentences here, the same for every format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import PurePath

from realm_core.corpus.grid import Cell, each_once, joined_names, laid_out
from realm_core.corpus.prose import sentence, tidy, tidy_line
from realm_core.documents.records import DocumentSection, Limits, ParsedDocument
from realm_core.errors import RealmError
from realm_core.text.language_codes import language_code

_MOST_LINKS = 10_000
_LONGEST_LINK = 2048
_MOST_COLUMNS = 16_384  # what a spreadsheet has
# Above the second column of two; in a table of names and values none of them is a value.
_NAMES_OF_COLUMNS = frozenset(
    "age amount amounts cost costs count date dates description duration fee fees figure height hours length location "
    "meaning number numbers population price prices quantity rate result role room size time times total unit value "
    "values weight width year years".split()
)
_YEAR = re.compile(r"(?<![\d.,])(?:19|20)\d\d(?:\s?[/–-]\s?(?:\d\d){1,2})?(?![\d.,])")  # "2025", "2024/25"
_DATED = re.compile(r"(?<![\d.,£$€])[12]\d{3}(?![\d.,%])")


class TooMuchText(RealmError):
    """A file holds more characters than may be read."""


class Budget:
    """How many characters may still be read; shared by all documents of one file."""

    def __init__(self, limits: Limits) -> None:
        self._limit = self._left = limits.characters

    def take(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise TooMuchText(f"holds more than {self._limit:,} characters of text, which is the limit.")


class Draft:
    """A document while it is being read. Errors are continuations of the file's name.

    format: one of `file_format.FILE_FORMATS`.
    name:   of the file; its stem is the title of a document that has no other.
    """

    def __init__(self, format: str, name: str, budget: Budget) -> None:
        self._format = format
        self._name = name
        self._budget = budget
        self._open: list[tuple[int, str]] = []  # headings with their levels
        self._first_heading = ""
        self._sections: list[tuple[tuple[str, ...], int | None, list[str]]] = []
        self._links: dict[str, None] = {}
        self._warnings: dict[str, None] = {}
        self.title = ""
        self.language = ""

    def heading(self, level: int, text: str, *, stated: bool = True) -> None:
        """Open a section: the smaller the level, the further out. stated: by the document, whose title it may be."""
        words = tidy_line(text)
        if not words:
            return
        self._budget.take(len(words))
        if stated:
            self._first_heading = self._first_heading or words
        self._open = [(outer, title) for outer, title in self._open if outer < level]
        self._open.append((level, words))

    def paragraph(self, text: str, page: int | None = None) -> None:
        """Add a paragraph to the open section; one without a visible character is left out."""
        self._budget.take(len(text))
        prose = tidy(text)
        if not prose:
            return
        headings = tuple(title for _, title in self._open)
        if not self._sections or self._sections[-1][:2] != (headings, page):
            self._sections.append((headings, page, []))
        self._sections[-1][2].append(prose)

    def item(self, text: str) -> None:
        """Add an item of a list, as a sentence."""
        self.paragraph(sentence(text))

    def table(self, rows: Iterable[Sequence[Cell]], pages: Iterable[int | None] = repeat(None)) -> None:
        """Add a table, a sentence for each row. rows: of the cells as they are stated, spans not laid out.

        pages: of each row, where the format has pages.
        """
        tidied = ([replace(cell, text=_in_one_line(cell.text)) for cell in row] for row in rows)
        laid: list[list[Cell]] = []
        kept_pages: list[int | None] = []
        for row, page in zip(laid_out(tidied, _MOST_COLUMNS + 1), pages, strict=False):
            if len(row) > _MOST_COLUMNS:
                raise RealmError(f"has a table of more than {_MOST_COLUMNS:,} columns, which is the limit.")
            self._budget.take(len(row))  # so that spans, which cost their sender nothing, are bounded as text is
            if any(cell.text for cell in row):
                laid.append(row)
                kept_pages.append(page)
        for number, line in _table_sentences(laid):
            self.paragraph(line, kept_pages[number])

    def row(self, names: Sequence[str], texts: Sequence[str]) -> None:
        """Add a row of a table that is read row by row; one column may have no name."""
        told = [_named(words, [name]) for name, text in zip(names, texts, strict=True) if (words := _in_one_line(text))]
        self.paragraph(sentence("; ".join(told)))

    @property
    def holds_text(self) -> bool:
        return bool(self._sections)

    def link(self, url: str) -> None:
        """Note a page that the text links to."""
        url = url.strip()
        if url.startswith(("https://", "http://")) and len(url) <= _LONGEST_LINK and len(self._links) < _MOST_LINKS:
            self._links[tidy_line(url, _LONGEST_LINK)] = None

    def warn(self, sentence: str) -> None:
        """Say what was guessed or not read."""
        self._warnings[sentence] = None

    def finish(self, *, identity: str = "") -> ParsedDocument:
        """The document; `RealmError` if it holds no text."""
        title = tidy_line(self.title) or self._first_heading
        if not self._sections:
            held = f"only a title ({title!r})" if title else "nothing that can be read"
            raise RealmError(f"holds no text: {held}.")
        from_name = not title
        title = title or tidy_line(PurePath(self._name).stem) or "Untitled"
        sections = tuple(
            # The title stands before every passage already.
            DocumentSection(headings[1:] if headings[:1] == (title,) else headings, "\n".join(paragraphs), page)
            for headings, page, paragraphs in self._sections
        )
        return ParsedDocument(
            title, language_code(self.language), sections, tuple(self._links), self._format, tuple(self._warnings),
            identity, titled_by_name=from_name,
        )  # fmt: skip


def _table_sentences(rows: Sequence[Sequence[Cell]]) -> Iterator[tuple[int, str]]:
    """A sentence for each row, with its number: "Population: 845,767.", "Country: Norway; Capital: Oslo.".

    The names of columns are those of the first rows all of whose cells are headings. If nothing is marked as a heading
    in a table of more than two columns, they are those of the first row if it is full of words and years, and of the
    first two if the second divides a name of the first. Two columns are names and values, unless a word such as "Price"
    or "Year" stands above the second. Rows of any
    other table are read as they are, "; " between the cells. A cell over the whole width is read alone.
    """
    widest = max(map(len, rows), default=0)
    start = next((number for number, row in enumerate(rows) if not _is_over_all(row, widest)), 0)
    for number, row in enumerate(rows[:start]):
        yield number, sentence(row[0].text)
    rows = rows[start:]
    names: list[str] = []
    headings = _heading_rows(rows, widest)
    for row in rows[:headings]:
        names = joined_names(names, [cell.text for cell in row])
    for number, row in enumerate(rows[headings:], start + headings):
        yield number, sentence(_row(row, names, widest))


def _is_over_all(row: Sequence[Cell], widest: int) -> bool:
    return len(row) == widest > 1 and all(cell is row[0] for cell in row)


def _heading_rows(rows: Sequence[Sequence[Cell]], widest: int) -> int:
    """How many rows name the columns."""
    if len(rows) < 2 or len(rows[0]) < 2:
        return 0
    headings = 0
    for row in rows:
        if _is_over_all(row, widest) or not all(cell.heads for cell in row if cell.text):
            break
        headings += 1
    if headings:
        return headings if headings < len(rows) else 1
    if any(cell.heads for row in rows for cell in row) or not _looks_like_names(rows, widest):
        return 0
    return 2 if len(rows) > 2 and _is_in_two_rows(rows, widest) else 1


def _looks_like_names(rows: Sequence[Sequence[Cell]], widest: int) -> bool:
    """Whether the first row is full of words without digits, and of years above other numbers ("Budget 2025")."""
    first = [cell.text for cell in rows[0]]
    if widest == 2:  # most are names and values
        return len(rows) > 2 and len(first) == 2 and first[1].casefold().strip(" :") in _NAMES_OF_COLUMNS
    if len(first) < widest:
        return False
    words = [any(map(str.isalpha, text)) and not _has_digit(text) for text in first]
    years = [bool(_YEAR.search(text)) and not _has_digit(_YEAR.sub("", text)) for text in first]
    if not all(word or year for word, year in zip(words[1:], years[1:], strict=True)):
        return False
    if not (words[0] or years[0] or not first[0]):  # above the names of the rows may be none
        return False
    below = [cell.text for row in rows[1:] for cell, year in zip(row, years, strict=False) if year]
    numbers = [text for text in below if _has_digit(text)]
    return not any(years) or sum(not _DATED.search(text) for text in numbers) * 2 >= len(numbers) > 0


def _is_in_two_rows(rows: Sequence[Sequence[Cell]], widest: int) -> bool:
    """Whether the second row divides a name over several columns, beside one that reaches down to it or a blank."""
    spans = any(len(places) > 1 for _, places in each_once(rows[0]))
    reaches = rows[0][0] is rows[1][0] or not rows[1][0].text
    return spans and reaches and _looks_like_names([[Cell("x"), *rows[1][1:]], *rows[2:]], widest)


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _row(row: Sequence[Cell], names: Sequence[str], widest: int) -> str:
    cells = [(cell.text, columns) for cell, columns in each_once(row) if cell.text]
    if names and len(row) > 1 and not _is_over_all(row, widest):
        return "; ".join(_named(text, names[columns.start : columns.stop]) for text, columns in cells)
    if len(cells) == 2 and widest == 2:
        return f"{_name(cells[0][0])}: {cells[1][0]}"
    return "; ".join(text for text, _ in cells)


def _named(text: str, names: Sequence[str]) -> str:
    """A cell behind the names of its columns."""
    told = ", ".join(dict.fromkeys(_name(name) for name in names if name))
    return f"{told}: {text}" if told else text


def _in_one_line(text: str) -> str:
    return tidy(text).replace("\n", " ")


def _name(text: str) -> str:
    return text.rstrip(" :")
