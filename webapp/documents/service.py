"""Documents in, changed, out of the corpus that answers now: the one way that page, REST API and command line take."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from django.contrib.auth.models import User

from realm_core.errors import RealmError
from webapp.models import CorpusChange, CorpusState, Document
from webapp.refusals import StateConflict


@dataclass(frozen=True)
class Text:
    """A pasted text; a blank line parts paragraphs, Markdown headings count."""

    text: str


@dataclass(frozen=True)
class File:
    """An uploaded file. name: what it is called. declared_type: its media type as a browser sends it."""

    content: bytes
    name: str
    declared_type: str | None = None


@dataclass(frozen=True)
class Address:
    """An address that a worker fetches."""

    url: str


@dataclass(frozen=True)
class Given:
    """A document to be added, or that takes the place of another.

    title, language, url: empty: what the source itself says. licence, attribution: None: the corpus's own.
    document_id: empty: made up (or the source's own, of a file that holds many documents).
    """

    source: Text | File | Address
    document_id: str = ""
    title: str = ""
    url: str = ""
    licence: str | None = None
    attribution: str | None = None
    language: str = ""
    date: datetime.date | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Edited:
    """What an edit did. state: the current one since; None while nothing differs from the base. changes: none where
    everything was there already. documents: all that were given or removed. timings_ms: read, embed, publish, …"""

    state: CorpusState | None
    documents: list[Document]
    changes: list[CorpusChange]
    timings_ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Listed:
    """A document of the list. row: None: it came with the corpus, and no edit has touched it."""

    document_id: str
    title: str
    url: str
    blocks: int
    status: str  # a `DocumentStatus`
    row: Document | None


@dataclass(frozen=True)
class Listing:
    """A page of the list, and how many there are in all."""

    documents: list[Listed]
    total: int


@dataclass(frozen=True)
class Block:
    """A block of a document as it is searched."""

    block_id: str
    text: str
    section: str


@dataclass(frozen=True)
class Shown:
    """One document with its text, of the current state; no text and no blocks once it is removed."""

    listed: Listed
    text: str
    blocks: list[Block]
    licence: str
    attribution: str
    language: str
    date: datetime.date | None
    tags: tuple[str, ...]


class DocumentMissing(RealmError):
    """The corpus has no such document."""


class Unreadable(RealmError):
    """A document cannot be taken: its name and the reason. Nothing of the edit has happened."""


class EditConflict(StateConflict):
    """Others edited the corpus at the same moment, again and again."""

    retry_after_s = 1


def add(given: Sequence[Given], *, by: User | None, kept: Callable[[Edited], None] | None = None) -> Edited:
    """Add documents, all or none. kept: called in the transaction that commits; what it raises undoes the edit."""
    raise NotImplementedError


def change(document_id: str, given: Given, *, by: User | None, kept: Callable[[Edited], None] | None = None) -> Edited:
    """Let a document be what is given. `DocumentMissing`."""
    raise NotImplementedError


def remove(
    document_ids: Sequence[str], *, by: User | None, kept: Callable[[Edited], None] | None = None
) -> Edited:
    """Take documents out, all or none. `DocumentMissing`."""
    raise NotImplementedError


def listed(*, title: str = "", status: str = "", start: int = 0, count: int = 50) -> Listing:
    """A page of the documents of the current state, those that edits touched first. title: a part of it.

    status: a `DocumentStatus`; empty: all that are there.
    """
    raise NotImplementedError


def show(document_id: str) -> Shown:
    """One document. `DocumentMissing`."""
    raise NotImplementedError
