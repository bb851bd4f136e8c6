"""The records of a corpus: articles, their sections, and the blocks that are retrieved."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Span = tuple[int, int]  # start and end, in characters of an article's text
BLOCK_ID = re.compile(r"[0-9a-f]{32}")  # as `block_id` makes them
# What may be stated of a document.
LONGEST_ID = 200  # characters
LONGEST_LANGUAGE = 20
LONGEST_LICENCE = 200
LONGEST_ATTRIBUTION = 500
LONGEST_COLLECTION = 100
LONGEST_TAG = 100
MOST_TAGS = 50


@dataclass(frozen=True, slots=True)
class Section:
    """heading: with its ancestors before it, joined by " › "; start: first character of its text in the article."""

    heading: str
    start: int


@dataclass(frozen=True, slots=True)
class Article:
    """Cleaned text. Headings are not part of `text`, but for those of documents; the lead section has none."""

    id: str
    title: str
    url: str
    text: str
    sections: tuple[Section, ...] = ()

    def section_at(self, position: int) -> str:
        """The heading of the section that contains character `position`; "" in the lead."""
        heading = ""
        for section in self.sections:
            if section.start > position:
                break
            heading = section.heading
        return heading

    def says_heading(self, section: Section) -> bool:
        """Whether the section's text begins with its heading, in a line of its own."""
        line = self.text[section.start : section.start + len(section.heading) + 1].partition("\n")[0]
        return bool(line) and section.heading.startswith(line)


@dataclass(frozen=True, slots=True)
class Block:
    """A passage that can be retrieved: `text` is the article's text[start:end]."""

    row: int
    block_id: str
    title: str
    text: str
    article_row: int
    start: int
    end: int
    section: str
    url: str


@dataclass(frozen=True, slots=True)
class Stated:
    """Metadata that a source states of a document; empty or None where it states none.

    language: a code such as en. date: the document's own, as 2024-05-31.
    """

    language: str = ""
    date: str = ""
    tags: tuple[str, ...] = ()
    licence: str | None = None
    attribution: str | None = None
    collection: str = ""


@dataclass(frozen=True, slots=True)
class RawArticle:
    """An article of a source before cleaning; as plain as JSON, in which it is sent to workers."""

    id: str
    title: str
    url: str
    text: str
    markup: Literal["plain", "wikitext"] = "plain"
    language: str = "en"
    stated: Stated = Stated()

    @classmethod
    def of(cls, fields: Sequence[Any]) -> RawArticle:
        """The article of its fields as `dataclasses.astuple` gives them, and JSON returns them."""
        identity, title, url, text, markup, language, (code, date, tags, *further) = fields
        return cls(identity, title, url, text, markup, language, Stated(code, date, tuple(tags), *further))


@dataclass(frozen=True, slots=True)
class ArticleRights:
    """Licence and attribution of the articles whose addresses begin with `address`, where not the corpus's own."""

    address: str
    licence: str
    attribution: str


def rights_in(manifest: Mapping[str, Any], url: str) -> ArticleRights | None:
    """The rights that a snapshot's manifest declares for an article's address; None: those of the corpus."""
    for part in manifest.get("rights", ()):
        if url.startswith(part["address"]):
            return ArticleRights(part["address"], part["licence"], part["attribution"])
    return None


def block_id(title: str, text: str) -> str:
    """A block's id, 32 hex digits: stable when the corpus is ingested again, unlike its row number."""
    return hashlib.blake2b(f"{title}\0{text}".encode(), digest_size=16).hexdigest()
