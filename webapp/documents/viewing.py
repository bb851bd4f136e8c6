"""Documents in the current state: described, and one of them with its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from webapp.documents.versions import version_of
from webapp.models import BASE_FORMAT, Document, DocumentStatus, IndexGeneration
from webapp.refusals import Missing
from webapp.serving.living import active, corpus_id, opened

if TYPE_CHECKING:
    from realm_core.corpus.records import Block
    from realm_core.living.documents import LivingDocument
    from realm_core.living.view import CorpusView, ListedDocument


class DocumentMissing(Missing):
    """The corpus has no such documents."""

    def __init__(self, *document_ids: str) -> None:
        super().__init__(f"The corpus has no document {' or '.join(map(repr, document_ids))}.")
        self.document_ids = document_ids


@dataclass(frozen=True)
class DocumentEntry:
    """A document in the list. row: None: it came with the corpus and was never edited.

    version: of its text and metadata; None: it was removed, or was not asked for.
    """

    document_id: str
    title: str
    url: str
    blocks: int
    status: str  # a `DocumentStatus`
    row: Document | None
    version: str | None = field(default=None, kw_only=True)

    @property
    def format(self) -> str:
        """The format that it was read from."""
        return BASE_FORMAT if self.row is None else self.row.format

    @property
    def warnings(self) -> list[str]:
        """Sentences about what was guessed or not read of what it was read from."""
        return [] if self.row is None else self.row.warnings


@dataclass(frozen=True)
class ShownDocument(DocumentEntry):
    """One document in the current state; without text, passages and version if it was removed.

    about: its metadata. corpus: the state, as answers name it. passages: its blocks.
    """

    about: LivingDocument | Document
    corpus: str
    text: str = ""
    passages: Sequence[Block] = ()


def place_of(document_id: str, view: CorpusView) -> int:
    """The article row of a document; DocumentMissing."""
    place = view.with_ids([document_id]).get(document_id)
    if place is None:
        raise DocumentMissing(document_id)
    return place


def described(document_ids: Sequence[str]) -> list[DocumentEntry]:
    """The known ones of these documents as they are now, in their order."""
    index = active().index
    found = {row.document_id: of_row(row) for row in Document.objects.filter(index=index, document_id__in=document_ids)}
    view = opened(index, index.state_now())
    places = view.with_ids(document_ids)
    found |= {one.id: of_base(one) for one in view.described([places[one] for one in places if one not in found])}
    return [found[one] for one in document_ids if one in found]


def show(document_id: str, hidden: frozenset[str] = frozenset(), index: IndexGeneration | None = None) -> ShownDocument:
    """One document. DocumentMissing, also for one of a hidden collection. index: None: the one that answers."""
    index = index or active().index
    row = Document.objects.filter(index=index, document_id=document_id).first()
    state = index.state_now()
    view = opened(index, state)
    place = view.with_ids([document_id]).get(document_id)
    about: LivingDocument | Document | None = row
    listed = None if row is None else of_row(row)
    present: dict[str, Any] = {}
    if place is not None:
        about = document = view.document(place)
        [described] = view.described([place])
        listed = listed or of_base(described)
        passages = view.blocks_of_article(place)
        present = {"text": document.text, "passages": passages, "version": version_of(document)}
    if about is None or about.collection in hidden:
        raise DocumentMissing(document_id)
    return ShownDocument(**{**vars(listed), **present}, about=about, corpus=corpus_id(index, state))


def elsewhere(document_id: str) -> Document | None:
    """The latest row of a document that was edited above an index, which need not be the active deployment's."""
    return Document.objects.filter(document_id=document_id).select_related("index").order_by("-pk").first()


def of_row(row: Document) -> DocumentEntry:
    """An edited document, as in the list."""
    return DocumentEntry(row.document_id, row.title, row.url, row.blocks, row.status, row)


def of_base(one: ListedDocument) -> DocumentEntry:
    """A document that came with the corpus, as in the list."""
    return DocumentEntry(one.id, one.title, one.url, one.blocks, DocumentStatus.CURRENT, None)
