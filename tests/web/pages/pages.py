"""Looking at a page as a reader does."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

from django.http import HttpResponse

_VOID = {"meta", "link", "input", "br", "hr", "img", "rect", "mspace"}


class Page(HTMLParser):
    """A page's elements in order, and the text below each. Fails on tags that do not close."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self._open: list[tuple[str, dict[str, str], list[str]]] = []
        self.feed(source)
        self.close()
        assert not self._open, f"never closed: {[tag for tag, _, _ in self._open]}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"an attribute stands twice in <{tag} {attributes}>"
        element = (tag, {name: value or "" for name, value in attributes}, [])
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attributes}, []))

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1][0] == tag, f"</{tag}> closes {self._open[-1:]}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for _, _, texts in self._open:
            texts.append(data)

    def all(self, tag: str, css_class: str = "") -> list[tuple[dict[str, str], str]]:
        """Attributes and folded text of every such element."""
        return [
            (attributes, " ".join("".join(texts).split()))
            for name, attributes, texts in self.elements
            if name == tag and (not css_class or css_class in attributes.get("class", "").split())
        ]

    def one(self, tag: str, css_class: str = "") -> str:
        """The text of the only such element."""
        (found,) = self.all(tag, css_class)
        return found[1]


def text_of(page: HttpResponse) -> str:
    """What is to be read in a page, with white space folded."""
    return plain(page.content.decode())


def plain(source: str) -> str:
    """The same of a part of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", source)).split())


def figures(source: str) -> list[tuple[float, str]]:
    """Every probability of a part of a page: its exact value and how it is written."""
    return [
        (float(value), html.unescape(shown).replace("\xa0", " "))
        for value, shown in re.findall(r'<data class="num" value="([^"]+)">([^<]*)</data>', source)
    ]


def sum_rows(source: str) -> tuple[list[list[tuple[float, str]]], tuple[float, str]]:
    """The sum of an answer page: prior, likelihood, product of each block; and the total."""
    table = re.search(r'<table class="sum__table">.*?</table>', source, re.S)
    assert table is not None
    body, foot = table[0].split("<tfoot>")
    rows = [figures(row) for row in body.split("<tbody>")[1].split("</tr>")[:-1]]
    return rows, figures(foot)[-1]


def block_part(source: str, block_id: str) -> str:
    """The part of an answer page that shows one block."""
    match = re.search(rf'<article class="[^"]*" id="block-{block_id}".*?</article>', source, re.S)
    assert match is not None
    return match[0]


def tenths(shown: str) -> int:
    """ "83.1 %" → 831, "< 0.1 %" → 0; exact, unlike a float."""
    if shown.startswith("<"):
        return 0
    number = shown.replace("\N{MINUS SIGN}", "-").replace("±", "").rstrip("%").strip()
    return round(float(number) * 10)
