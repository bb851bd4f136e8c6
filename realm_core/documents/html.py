"""HTML: trafilatura finds the article of a page; its headings, paragraphs, lists and tables are read.

Where trafilatura keeps little of a page's text or headings, as of short ones, the whole page is read, without its
navigation. Scripts, styles and forms are never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import lxml.etree
import lxml.html
from lxml.html import HtmlElement

from realm_core.corpus.grid import HIGHEST_SPAN, WIDEST_SPAN, Cell
from realm_core.documents.draft import Draft
from realm_core.errors import RealmError

_META_WITHIN = 4096  # bytes; browsers look for <meta charset> in the first 1,024
_XML_ENCODING = re.compile(r"^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)[\"'][^>]*\?>")
_XML_HEAD = re.compile(r"^\s*<\?xml[^>]*\?>")
_LEAST_SHARE = 0.5  # of characters, headings and other blocks, that trafilatura must have found
_COUNTED = frozenset("p li td th pre dd blockquote".split())
# Marks within a sentence. Without them trafilatura has less to look through, and does not take code for a paragraph.
_INLINE = (
    "abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd mark q s samp small span strong sub sup "
    "time tt u var wbr"
).split()
_UNSEEN = (
    "script style noscript template svg math iframe object embed form button select textarea nav aside footer head "
    "canvas audio video dialog".split()
)
_BLOCKS = frozenset(
    "address article aside blockquote body center dd details div dl dt fieldset figcaption figure footer header hr "
    "html main p pre section summary td th tr".split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset(("ul", "ol", "menu"))
_TAG_NAME = re.compile(r"</?([a-zA-Z][a-zA-Z0-9]*)")
_SPACE = re.compile(r"\s+")
_NUMBER = re.compile(r"\s*\+?([0-9]{1,9})")


class NoElement(RealmError):
    """A page is blank, or nothing but comments."""


def read_html(text: str, draft: Draft) -> None:
    """Read a page's title, language and article; `RealmError` for one that the parser gives up on."""
    page = parsed(text)
    draft.language = page.get("lang") or page.get("{http://www.w3.org/XML/1998/namespace}lang") or ""
    lxml.etree.strip_tags(page, *_INLINE)
    draft.title = _title(page)
    _remove_unseen(page)
    _open_layout(page)
    _make_tables_of_terms(page)
    article = _article(page)
    _Walker(draft).read(article if article is not None else page)


def stated_charset(data: bytes) -> str:
    """The text in which a page states its encoding: the beginning of its source."""
    head = data[:_META_WITHIN].decode("latin-1")
    stated = _XML_ENCODING.match(head)
    return f"charset={stated[1]}" if stated else head


def parsed(text: str) -> HtmlElement:
    """A page as a tree, of which no part is missing."""
    parser = lxml.html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)
    source = _XML_HEAD.sub("", text).encode("utf-8", "replace")
    try:
        page = lxml.html.document_fromstring(source, parser=parser, ensure_head_body=True)
    except (lxml.etree.LxmlError, ValueError, AssertionError) as error:
        raise (NoElement if isinstance(error, lxml.etree.ParserError) else RealmError)(
            f"holds no HTML that can be read: {str(error).rstrip('.')}."
        ) from None
    # The parser repairs other errors as browsers do; these end the parsing, and the rest of the page would be missing.
    for entry in parser.error_log:
        if entry.level == lxml.etree.ErrorLevels.FATAL or entry.type_name == "ERR_RESOURCE_LIMIT":
            reason = "its elements are nested too deeply" if "depth" in entry.message else entry.message.rstrip(".")
            raise RealmError(f"cannot be read beyond line {entry.line:,}, column {entry.column:,}: {reason}.")
    return page


def read_fragment(fragment: str, draft: Draft) -> None:
    """Read a piece of HTML, as it stands in Markdown, whole."""
    page = parsed(f"<div>{fragment}</div>")
    _remove_unseen(page)
    lxml.etree.strip_tags(page, *_INLINE)
    _open_layout(page)
    _make_tables_of_terms(page)
    _Walker(draft).read(page)


def instead_of_tag(tag: str) -> str:
    """The text that replaces a single tag or comment within a line."""
    name = _TAG_NAME.match(tag)
    if name is None or name[1].lower() in (*_INLINE, "a"):
        return ""
    return "\n" if name[1].lower() == "br" else " "


def _title(page: HtmlElement) -> str:
    """A single first-level heading says what a page is about; <title> names the site as well."""
    headings = [words for heading in page.iter("h1") if (words := _heading(heading))]
    if len(headings) == 1:
        return headings[0]
    titles = [words for title in page.iter("title") if (words := _words(title))]
    return titles[0] if titles else ""


def _heading(element: HtmlElement) -> str:
    """Without the sign at its end that links to itself."""
    return _words(element).rstrip(" ¶")


def _remove_unseen(page: HtmlElement) -> None:
    for element in list(page.iter(*_UNSEEN)):
        if element.getparent() is not None:
            element.drop_tree()
    for element in page.xpath("//*[@hidden or @aria-hidden='true']"):
        if element.getparent() is not None and element.tag not in ("html", "body"):
            element.drop_tree()


def _open_layout(page: HtmlElement) -> None:
    """Make tables whose cells hold tables or headings, which are there for the layout, parts of the page.

    trafilatura would tell the tables of a cell behind all of the outer table, and so under another heading.
    """
    rows: dict[HtmlElement, None] = {}
    for inner in page.iter("table", *_HEADINGS):
        row = next(inner.iterancestors("tr"), None)
        while row is not None and row not in rows:
            rows[row] = None
            row = next(row.iterancestors("tr"), None)
    for outer in {table: None for row in rows if (table := next(row.iterancestors("table"), None)) is not None}:
        parts: list[HtmlElement] = []
        for one in [*outer.iterchildren("caption"), *_own_rows(outer)]:
            one.tail = None
            if one not in rows and one.find("th") is not None and one.find("td") is not None:
                if not parts or parts[-1].tag != "table":
                    parts.append(lxml.html.Element("table"))
                parts[-1].append(one)  # a name and its value
                continue
            for part in [one, *one.iterchildren("td", "th")]:
                part.tag = "div"
            parts.append(one)
        for child in list(outer):
            outer.remove(child)
        outer.tag, outer.text = "div", None
        outer.extend(parts)


def _own_rows(table: HtmlElement) -> Iterator[HtmlElement]:
    for child in table.iterchildren("tr", "thead", "tbody", "tfoot"):
        yield from (child,) if child.tag == "tr" else _own_rows(child)


def _make_tables_of_terms(page: HtmlElement) -> None:
    """Terms and their descriptions are a table of two columns; trafilatura would read them as one list."""
    for terms in list(page.iter("dl")):
        table = lxml.html.Element("table")
        row: HtmlElement | None = None
        for child in list(terms.iter("dt", "dd")):
            if child.tag == "dt" or row is None or row.find("td") is not None:
                row = lxml.html.Element("tr")
                table.append(row)
            child.tail = None
            child.tag = "th" if child.tag == "dt" else "td"
            row.append(child)
        table.tail = terms.tail
        terms.getparent().replace(terms, table)


def _article(page: HtmlElement) -> HtmlElement | None:
    """The part of the page that trafilatura takes for the article; None if little of the page is left in it."""
    import trafilatura  # takes a while, and Markdown does not need it

    found = trafilatura.extract(
        page, output_format="html", include_comments=False, include_links=True, favor_recall=True, fast=True
    )
    if not found:
        return None
    article = parsed(found)
    kept, all_there = _substance(article), _substance(page)
    if any(one < _LEAST_SHARE * of for one, of in zip(kept, all_there, strict=True)):
        return None
    _restore_tables(article, page)
    return article


def _restore_tables(article: HtmlElement, page: HtmlElement) -> None:
    """Put the page's own tables in place of those that trafilatura made of them, without spans and most headings."""
    own: dict[str, list[HtmlElement]] = {}
    for table in page.iter("table"):
        if next(table.iterdescendants("table"), None) is None:
            own.setdefault(_letters(table), []).append(table)
    for made in list(article.iter("table")):
        if found := own.get(_letters(made)):
            table = found.pop(0)
            table.tail = made.tail
            made.getparent().replace(made, table)


def _letters(element: HtmlElement) -> str:
    return "".join("".join(element.itertext()).split())


def _substance(page: HtmlElement) -> tuple[int, int, int]:
    """Characters outside of links; headings, and other blocks, with such characters. Navigation counts for nothing."""
    characters = headings = blocks = links = 0
    for event, element in lxml.etree.iterwalk(page, events=("start", "end")):
        if event == "start":
            links += element.tag == "a"
            has_words = bool((element.text or "").strip())
            headings += has_words and element.tag in _HEADINGS
            blocks += has_words and element.tag in _COUNTED
        else:
            links -= element.tag == "a"
        if not links:
            characters += len(((element.text if event == "start" else element.tail) or "").strip())
    return characters, headings, blocks


def _words(element: HtmlElement) -> str:
    return _SPACE.sub(" ", "".join(_pieces(element))).strip()


def _pieces(element: Any) -> Iterator[str]:
    """The texts of an element; a space around any part but a link, which may end within a word."""
    yield element.text or ""
    for child in element:
        space = "" if child.tag == "a" else " "
        yield space
        yield from _pieces(child)
        yield space
        yield child.tail or ""


class _Walker:
    """Goes through a tree once and hands its text to a draft. The parser has bounded the depth."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._inline: list[str] = []  # of the paragraph or item that is open
        self._items = 0  # lists around this place

    def read(self, page: HtmlElement) -> None:
        self._element(page)
        self._close()

    def _element(self, element: Any) -> None:
        tag = element.tag
        if tag in _HEADINGS:
            self._close()
            self._draft.heading(_HEADINGS[tag], _heading(element))
            self._links(element)
        elif tag == "table":
            self._close()
            self._table(element)
        elif tag == "br":
            self._inline.append("\n")
        elif tag in _LISTS:
            self._close()
            self._items += 1
            self._children(element)
            self._close()
            self._items -= 1
        elif tag in _BLOCKS or tag == "li":
            self._close()
            self._children(element)
            self._close()
        else:
            if tag == "a":
                self._draft.link(element.get("href") or "")
            self._children(element)

    def _children(self, element: Any) -> None:
        self._add(element.text, element)
        for child in element:
            self._element(child)
            self._add(child.tail, element)

    def _add(self, text: str | None, parent: Any) -> None:
        if text:
            self._inline.append(text if parent.tag == "pre" else _SPACE.sub(" ", text))

    def _close(self) -> None:
        text = "".join(self._inline)
        self._inline.clear()
        if self._items:
            self._draft.item(_SPACE.sub(" ", text))
        else:
            self._draft.paragraph(text)

    def _links(self, element: Any) -> None:
        for anchor in element.iter("a"):
            self._draft.link(anchor.get("href") or "")

    def _table(self, table: Any) -> None:
        rows = [row for group in _row_groups(table) for row in _spanning(group)]
        caption = table.find("caption")
        if caption is not None:
            self._draft.paragraph(_words(caption))
        self._links(table)
        self._draft.table(rows)


def _row_groups(table: Any) -> Iterator[list[list[Any]]]:
    """The cells of each row; no cell reaches beyond its group."""
    rows: list[list[Any]] = []
    for child in table:
        if child.tag == "tr":
            rows.append([cell for cell in child if cell.tag in ("td", "th")])
        elif child.tag in ("thead", "tbody", "tfoot"):
            yield rows
            rows = []
            yield from _row_groups(child)
    yield rows


def _spanning(rows: list[list[Any]]) -> Iterator[list[Cell]]:
    """The cells of a group of rows with what they span; zero rows are all that follow."""
    for number, row in enumerate(rows):
        left = len(rows) - number
        yield [
            Cell(_words(cell), cell.tag == "th", _span(cell, "colspan") or 1, min(_span(cell, "rowspan") or left, left))
            for cell in row
        ]


def _span(cell: Any, name: str) -> int:
    stated = _NUMBER.match(cell.get(name) or "1")
    return min(int(stated[1]), WIDEST_SPAN if name == "colspan" else HIGHEST_SPAN) if stated else 1
