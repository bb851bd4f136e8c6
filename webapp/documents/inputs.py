"""From inputs to documents of the corpus: read, describe, validate; unreadable ones are refused."""

from __future__ import annotations

import datetime
import unicodedata
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from django.core.files.uploadedfile import UploadedFile

from realm_core.corpus.records import (
    LONGEST_ATTRIBUTION,
    LONGEST_COLLECTION,
    LONGEST_ID,
    LONGEST_LANGUAGE,
    LONGEST_LICENCE,
    LONGEST_TAG,
    MOST_TAGS,
)
from realm_core.errors import CannotStore, RealmError
from webapp.documents import languages
from webapp.models import BASE_FORMAT, CorpusSnapshot
from webapp.refusals import FieldError, InvalidRequest
from webapp.text import one_line

if TYPE_CHECKING:
    from realm_core.corpus.records import Section
    from realm_core.documents.records import DocumentSection, Limits, ParsedDocument
    from realm_core.living.documents import LivingDocument

LARGEST_FILE_BYTES: Final = 64 << 20
MOST_CHARACTERS: Final = 5_000_000  # of all documents of an edit: some 3,000 blocks, a minute of embedding
MOST_DOCUMENTS: Final = 1_000  # of an edit; more are to be ingested as a corpus
LONGEST_TITLE: Final = 512
LONGEST_URL: Final = 2048
_PDF: Final = "pdf"
# In REST an id is the end of a path (`documents/urls.py`); with these it would be the path of another resource.
_NO_ENDS: Final = ("/touched", "/restore")
_NO_IDS: Final = frozenset({"bulk", "bulk/remove"})
_NO_STEPS: Final = frozenset({".", ".."})
_NO_CATEGORIES: Final = frozenset({"Cc", "Zl", "Zp"})  # control characters and line breaks
_OWN: Final = ("url", "language", "collection")  # kept from the document where a change does not give them


class Unreadable(RealmError):
    """Documents that cannot be read: the name and the reason of each. The edit was not made.

    present: titles by id of documents that are in the corpus already.
    """

    def __init__(self, *reasons: str, present: Mapping[str, str] | None = None) -> None:
        super().__init__(" ".join(reasons))
        self.reasons = reasons
        self.present = dict(present or {})


@dataclass(frozen=True)
class Text:
    """A pasted text. Each line is a paragraph, each row of a table a sentence."""

    text: str


@dataclass(frozen=True)
class File:
    """An uploaded file. name: its file name. declared_type: its media type, as sent by the browser."""

    content: bytes
    name: str
    declared_type: str | None = None

    @classmethod
    def of(cls, uploaded: UploadedFile[Any]) -> File:
        """The file of a form or a request, which may have been read before."""
        uploaded.seek(0)
        return cls(uploaded.read(), uploaded.name or "", uploaded.content_type or None)


@dataclass(frozen=True)
class Address:
    """An address that a worker fetches."""

    url: str


@dataclass(frozen=True)
class Staged:
    """A file or the content of an address, kept for an edit that is being previewed (`fetching.staged`)."""

    fetch_id: uuid.UUID


@dataclass(frozen=True)
class OwnText:
    """The document's present text and headings: the edit changes only its metadata."""


Source = Text | File | Address | Staged | OwnText


@dataclass(frozen=True)
class DocumentInput:
    """A document to add, or to replace another.

    document_id: empty: the source's own, in a file of many documents; otherwise a new one.
    title:       empty: the source's own.

    A field that is None was not given. The licence, attribution, date and tags are then the source's, otherwise the
    replaced document's. The url, language and collection are then the replaced document's (`with_own`), otherwise as if
    they were empty.

    An empty url, language or collection is the source's; otherwise the language is what the text tells or the corpus's,
    and the collection the one that has the corpus's name. Any other empty field has no value.

    new_collection: a collection that is not there may be made. more_readers: the document may leave a private
    collection for one that more may read (`placing.py`).
    licence_needed: the document is refused if neither the input nor its source states a licence.
    own:            the document to replace; None: this is a new one.
    """

    source: Source
    document_id: str = ""
    title: str = ""
    url: str | None = None
    licence: str | None = None
    attribution: str | None = None
    language: str | None = None
    date: datetime.date | Literal[""] | None = None
    tags: tuple[str, ...] | None = None
    collection: str | None = None
    new_collection: bool = False
    more_readers: bool = False
    licence_needed: bool = False
    own: LivingDocument | None = None

    def with_own(self, own: LivingDocument) -> DocumentInput:
        """The input of a change: `own` has the values that were not given, and the text if it is unchanged."""
        kept = {name: getattr(own, name) for name in _OWN if getattr(self, name) is None}
        source = self.source
        if isinstance(source, Text) and source.text.strip().splitlines() == own.text.splitlines():
            source = OwnText()
        return replace(self, source=source, own=own, document_id=own.id, **kept)


@dataclass(frozen=True)
class ReadDocument:
    """A document in the corpus's format, and the format that it was read from.

    pdf: the file's content if it is a PDF. original: the path of the kept PDF, or empty. name: of the file, or empty.
    warnings: sentences about what was guessed or not read, and about its language.
    text_of: the document in the corpus whose text is kept; None: the text is new.
    new_collection, more_readers: as of the input.
    """

    document: LivingDocument
    format: str
    pdf: bytes | None = None
    original: str = ""
    name: str = ""
    warnings: tuple[str, ...] = ()
    text_of: LivingDocument | None = None
    new_collection: bool = False
    more_readers: bool = False


def checked(given: Sequence[DocumentInput], listed: str = "") -> None:
    """InvalidRequest names every wrong field, after `[n].` if there are several documents.

    listed: the field of the request that has them as a list.
    """
    errors = []
    for number, one in enumerate(given):
        before = f"{listed}[{number}]." if listed or len(given) > 1 else ""
        errors += [FieldError(before + error.field, error.detail) for error in _wrong(one)]
    if not 1 <= len(given) <= MOST_DOCUMENTS:
        errors.append(FieldError(listed, f"One edit takes 1 to {MOST_DOCUMENTS:,} documents, not {len(given):,}."))
    if errors:
        raise InvalidRequest(*errors)


def _wrong(one: DocumentInput) -> list[FieldError]:
    errors = []
    source = one.source
    if isinstance(source, Text):
        if not source.text.strip():
            errors.append(FieldError("text", "Give the document a text."))
        if not one_line(one.title):
            errors.append(FieldError("title", "Give the document a title."))
    for name, text, most in (
        ("id", one.document_id, LONGEST_ID),
        ("title", one.title, LONGEST_TITLE),
        ("url", one.url or "", LONGEST_URL),
        ("licence", one.licence or "", LONGEST_LICENCE),
        ("attribution", one.attribution or "", LONGEST_ATTRIBUTION),
        ("language", one.language or "", LONGEST_LANGUAGE),
        ("collection", one.collection or "", LONGEST_COLLECTION),
        ("address", source.url if isinstance(source, Address) else "", LONGEST_URL),
    ):
        if len(text) > most:
            errors.append(FieldError(name, f"This may have at most {most} characters; it has {len(text):,}."))
    if one.url and not one.url.startswith(("https://", "http://")):
        errors.append(FieldError("url", "This must be an address that begins with https:// or http://."))
    tags = one.tags or ()
    if len(tags) > MOST_TAGS or any(len(tag) > LONGEST_TAG for tag in tags):
        errors.append(FieldError("tags", f"At most {MOST_TAGS} tags, each of at most {LONGEST_TAG} characters."))
    return errors


def read(given: Sequence[DocumentInput], corpus: CorpusSnapshot, *, only_one: bool = False) -> list[ReadDocument]:
    """The documents in all inputs, whose addresses were fetched.

    only_one: a file that holds many is refused. Unreadable names all that cannot be read, and why.
    """
    taken: list[ReadDocument] = []
    reasons: list[str] = []
    typed = iter(_read_typed([one for one in given if isinstance(one.source, Text)]))
    for single in given:
        try:
            if isinstance(single.source, Text):
                taken.append(_of_typed(next(typed), single, corpus))
            else:
                taken += _read(single, corpus, only_one=only_one)
        except Unreadable as error:
            reasons += error.reasons
    if reasons:
        raise Unreadable(*reasons)
    if len(taken) > MOST_DOCUMENTS:
        raise Unreadable(
            f"These are {len(taken):,} documents, and one edit takes at most {MOST_DOCUMENTS:,}; ingest a corpus."
        )
    characters = sum(len(one.document.text) for one in taken)
    if characters > MOST_CHARACTERS:
        raise Unreadable(
            f"These are {characters:,} characters, and one edit takes at most {MOST_CHARACTERS:,}; give fewer "
            "documents at once, or ingest a corpus."
        )
    return taken


def _read(given: DocumentInput, corpus: CorpusSnapshot, *, only_one: bool) -> list[ReadDocument]:
    from realm_core.documents.reading import read_documents
    from realm_core.documents.records import ParsedDocument
    from realm_core.living.documents import DocumentRefused

    source = given.source
    assert not isinstance(source, Text | Address | Staged)
    if isinstance(source, OwnText):
        assert given.own is not None
        kept = ParsedDocument(given.own.title, "", (), (), BASE_FORMAT)
        return [_read_document(kept, given, corpus, None, "", alone=True)]
    name, content = source.name, source.content
    try:
        found = read_documents(content, name, source.declared_type, _limits(), only_one=only_one)
    except CannotStore:  # no fault of the file
        raise
    except RealmError as error:
        raise Unreadable(str(error)) from error
    if len(found) > 1 and given.document_id:
        raise Unreadable(f"{name} holds {len(found):,} documents, which cannot all have the id {given.document_id!r}.")
    pdf = content if found[0].format == _PDF else None
    try:
        return [_read_document(one, given, corpus, pdf, name, alone=len(found) == 1) for one in found]
    except DocumentRefused as error:
        raise Unreadable(named(name, str(error))) from None


def _read_typed(given: Sequence[DocumentInput]) -> list[ParsedDocument | RealmError]:
    """What the texts of some inputs hold, or why they cannot be read."""
    from realm_core.documents.reading import read_typed

    texts = [(one_line(one.title), one.source.text) for one in given if isinstance(one.source, Text)]
    return read_typed(texts, _limits())


def _of_typed(read: ParsedDocument | RealmError, given: DocumentInput, corpus: CorpusSnapshot) -> ReadDocument:
    from realm_core.living.documents import DocumentRefused

    if isinstance(read, RealmError):
        raise Unreadable(str(read)) from read
    try:
        return _read_document(read, given, corpus, None, "", alone=True)
    except DocumentRefused as error:
        raise Unreadable(str(error)) from None


def _limits() -> Limits:
    from realm_core.documents.records import Limits

    return Limits(file_bytes=LARGEST_FILE_BYTES, documents=MOST_DOCUMENTS, characters=MOST_CHARACTERS)


def named(file_name: str, reason: str) -> str:
    """Why a document is refused, with the name of its file."""
    return f"{file_name}: {reason}" if file_name else reason


def _read_document(
    read: ParsedDocument,
    given: DocumentInput,
    corpus: CorpusSnapshot,
    pdf: bytes | None,
    file_name: str,
    *,
    alone: bool,
) -> ReadDocument:
    from realm_core.living.documents import DocumentRefused, LivingDocument, cleaned

    title, own = (given.title if alone else "") or read.title, given.own
    kept = own if isinstance(given.source, OwnText) else None
    text, sections = (kept.text, kept.sections) if kept else _with_sections(read.sections)
    if own and isinstance(given.source, Text):  # plain text has no headings but those that its lines had before
        sections = own.sections_of(text)
    language, said = languages.settled(given.language or read.language, text, corpus.language)
    document = LivingDocument(
        id=given.document_id or read.identity or f"d-{uuid.uuid4().hex[:16]}",
        title=title,
        text=text,
        sections=sections,
        url=given.url or read.url,
        # The corpus's licence is no default: nobody has stated it for this document.
        licence=_first_stated(given.licence, read.licence, own.licence if own else ""),
        attribution=_first_stated(given.attribution, read.attribution, own.attribution if own else ""),
        language=language,
        date=_date(given, read),
        tags=given.tags if given.tags is not None else read.tags or (own.tags if own else ()),
        collection=one_line(given.collection or read.collection) or corpus.name,
    )
    if given.licence_needed and not document.licence:
        raise DocumentRefused(document.id, f"The source states no licence of {title!r}: give one.")
    document = cleaned(document)
    if own is None and (wrong := _wrong_id(document.id)):
        raise DocumentRefused(document.id, wrong)
    document = replace(document, language=document.language[:LONGEST_LANGUAGE])
    return ReadDocument(
        document,
        read.format,
        pdf,
        name=file_name,
        warnings=(*read.warnings, *_title_said(read, given), *said),
        text_of=kept,
        new_collection=given.new_collection,
        more_readers=given.more_readers,
    )


def _title_said(read: ParsedDocument, given: DocumentInput) -> list[str]:
    """A warning if the title is the file's name: the models read it before each passage of the document."""
    if not read.titled_by_name or given.title or not isinstance(given.source, File):
        return []
    return [
        f"It states no title, so it is called “{read.title}”, as its file is; a better one helps to find its passages."
    ]


def _wrong_id(document_id: str) -> str:
    """Why a new document may not have this id; empty if it may."""
    if len(document_id) > LONGEST_ID:
        return f"The document {document_id[:50]!r}… has an id of more than {LONGEST_ID} characters."
    if any(unicodedata.category(one) in _NO_CATEGORIES for one in document_id):
        return f"The id {document_id!r} must not contain a control character or a line break."
    if end := next((end for end in _NO_ENDS if document_id.endswith(end)), ""):
        return f"The id {document_id!r} must not end with {end!r}."
    if document_id in _NO_IDS or not _NO_STEPS.isdisjoint(document_id.split("/")):
        return f"No document may have the id {document_id!r}: its address would be that of another resource."
    return ""


def _date(given: DocumentInput, read: ParsedDocument) -> datetime.date | None:
    if given.date is not None:
        return given.date or None
    if read.date:
        return datetime.date.fromisoformat(read.date)
    return given.own.date if given.own else None


def _first_stated(*stated: str | None) -> str:
    """The first that is not None."""
    return next((one for one in stated if one is not None), "")


def _with_sections(read: Sequence[DocumentSection]) -> tuple[str, tuple[Section, ...]]:
    """Text and sections; a page number follows its heading, so that evidence can name it (`serving/pdf_places.py`).

    The text says the headings, too, with those above them, each once: “30 days” answers nothing without “Annual leave”
    above it, nor a block that begins at “Vote” without what was voted on.
    """
    from realm_core.corpus.records import Section

    sections: list[Section] = []
    pieces: list[str] = []
    length = 0
    above: tuple[str, ...] = ()
    for one in read:
        heading = " › ".join(one.headings)
        text = f"{heading}\n{one.text}" if heading and one.headings != above else one.text
        above = one.headings
        if one.page is not None:
            heading = f"{heading} (page {one.page})" if heading else f"Page {one.page}"
        sections.append(Section(heading, length))
        pieces.append(text)
        length += len(text) + 1
    return "\n".join(pieces), tuple(sections)
