"""Documents of a living corpus: their fields, filters on them, and their rows in the table of metadata."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import pyarrow as pa

from realm_core.corpus.metadata import DOCUMENTS_SCHEMA, tidied
from realm_core.corpus.prose import tidy, tidy_line, without_surrogates
from realm_core.corpus.records import Article, Section
from realm_core.errors import RealmError

MAX_URL_CHARACTERS = 2048


class DocumentRefused(RealmError):
    """A document cannot be accepted, or does not exist; document_id names it. Its edit was not made.

    reasons: by document, where several are refused. present: titles by id of documents that the corpus has, which these
    would only repeat.
    """

    def __init__(
        self,
        document_id: str,
        reason: str,
        others: Mapping[str, str] | None = None,
        *,
        present: Mapping[str, str] | None = None,
    ) -> None:
        self.document_id = document_id
        self.reasons = {document_id: reason, **(others or {})}
        self.present = dict(present or {})
        super().__init__(" ".join(self.reasons.values()))


@dataclass(frozen=True)
class LivingDocument:
    """A text with its metadata.

    sections: headings, each with the start of its own text in `text`, ascending.
    url: the source; only http and https are kept. date: the document's own, not that of the edit.
    """

    id: str
    title: str
    text: str
    sections: tuple[Section, ...] = ()
    url: str = ""
    licence: str = ""
    attribution: str = ""
    language: str = "en"
    date: datetime.date | None = None
    tags: tuple[str, ...] = ()
    collection: str = ""

    def article(self) -> Article:
        """The part that every snapshot stores."""
        return Article(self.id, self.title, self.url, self.text, self.sections)

    def canonical(self) -> str:
        """All its fields in one line, equal for equal documents."""
        return json.dumps(asdict(self), sort_keys=True, default=datetime.date.isoformat)

    def sections_of(self, text: str) -> tuple[Section, ...]:
        """The sections of a changed text: those of this one whose headings still stand in it, in a line, in order."""
        article = self.article()
        said = [self.text[one.start :].partition("\n")[0] for one in self.sections if article.says_heading(one)]
        starts = dict[int, str]()
        after = 0
        for heading in said:
            found = re.compile(rf"^{re.escape(heading)}$", re.MULTILINE).search(text, after)
            if found is not None:
                starts[found.start()] = heading
                after = found.end()
        return tuple(Section(heading, start) for start, heading in starts.items())


@dataclass(frozen=True)
class Changes:
    """One edit: documents to add or to replace those with the same ids, and ids to remove."""

    documents: tuple[LivingDocument, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Filter:
    """A selection of documents. All given conditions must hold; of several values of one, any may match.

    titles, tags: in NFC and any case, also of documents that have them decomposed. languages: in lower case.
    since, until: the first and the last day; a document without a date is left out.
    hidden_collections: those that do not count.
    """

    documents: frozenset[str] | None = None
    titles: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    languages: frozenset[str] | None = None
    collections: frozenset[str] | None = None
    since: datetime.date | None = None
    until: datetime.date | None = None
    hidden_collections: frozenset[str] = frozenset()


def cleaned(document: LivingDocument) -> LivingDocument:
    """The document as a corpus stores it, cleaned as in ingesting; `DocumentRefused` if nothing is left."""
    if not document.id.strip():
        raise DocumentRefused(document.id, "A document has no id.")
    title = tidy_line(document.title)
    if not title:
        raise DocumentRefused(document.id, f"The document {document.id!r} has no title.")
    text, sections = _tidied(document)
    if not text:
        raise DocumentRefused(document.id, f"The document {document.id!r} has no text.")
    url = tidy_line(document.url, MAX_URL_CHARACTERS) if document.url.startswith(("https://", "http://")) else ""
    return replace(
        document,
        id=without_surrogates(document.id),
        title=title,
        text=text,
        sections=sections,
        url=url,
        **tidied({name: getattr(document, name) for name in DOCUMENTS_SCHEMA.names}),
    )


def _tidied(document: LivingDocument) -> tuple[str, tuple[Section, ...]]:
    """Text and sections, each section cleaned separately so that its start is known; empty ones are dropped."""
    starts = [section.start for section in document.sections]
    if starts != sorted(starts) or any(not 0 <= start <= len(document.text) for start in starts):
        raise DocumentRefused(document.id, f"The sections of the document {document.id!r} do not lie in its text.")
    pieces: list[str] = []
    sections: list[Section] = []
    length = 0
    headings = ["", *(section.heading for section in document.sections)]
    bounds = [0, *starts, len(document.text)]
    for heading, start, stop in zip(headings, bounds, bounds[1:], strict=False):
        piece = tidy(document.text[start:stop])
        if not piece:
            continue
        length += bool(pieces)  # the line break before it
        if heading.strip():
            sections.append(Section(tidy_line(heading), length))
        elif sections:  # text under an empty heading does not belong to the section before it
            sections.append(Section("", length))
        pieces.append(piece)
        length += len(piece)
    return "\n".join(pieces), tuple(sections)


def document_rows(documents: Sequence[LivingDocument]) -> pa.RecordBatch:
    columns = {name: [getattr(document, name) for document in documents] for name in DOCUMENTS_SCHEMA.names}
    return pa.RecordBatch.from_pydict(columns, DOCUMENTS_SCHEMA)
