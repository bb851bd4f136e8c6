"""What the corpus is made of: articles, their sections, and the blocks that are retrieved."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

Span = tuple[int, int]  # start and end, in characters of an article's text


@dataclass(frozen=True, slots=True)
class Section:
    """A heading (its ancestors before it, " › " between) and the character of the article at which its text starts."""

    heading: str
    start: int


@dataclass(frozen=True, slots=True)
class Article:
    """Clean prose. Headings are not in `text`; the lead, before the first section, has none."""

    id: str
    title: str
    url: str
    text: str
    sections: tuple[Section, ...] = ()

    def section_at(self, position: int) -> str:
        """The heading under which character `position` stands; "" in the lead."""
        heading = ""
        for section in self.sections:
            if section.start > position:
                break
            heading = section.heading
        return heading


@dataclass(frozen=True, slots=True)
class Block:
    """A passage as the retriever sees it: `text` is exactly the article's text[start:end]."""

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
class RawArticle:
    """An article as a source hands it over, before cleaning; plain strings, so that it crosses processes as JSON."""

    id: str
    title: str
    url: str
    text: str
    markup: Literal["plain", "wikitext"] = "plain"
    language: str = "en"


def block_id(title: str, text: str) -> str:
    """A block's identity, 32 hex digits: it survives re-ingesting, its row number does not."""
    return hashlib.blake2b(f"{title}\0{text}".encode(), digest_size=16).hexdigest()
