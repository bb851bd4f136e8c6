"""Documents in the current state: described, and one of them with its text."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from realm_core.errors import RealmError
from webapp.documents.inputs import BASE_FORMAT
from webapp.documents.versions import version_of
from webapp.models import CorpusState, Deployment, Document, DocumentStatus, IndexGeneration
from webapp.refusals import Missing
from webapp.serving.engine import EngineUnavailable
from webapp.serving.living import state_of, view_of

if TYPE_CHECKING:
    from realm_core.corpus.records import Block
    from realm_core.living.documents import LivingDocument
    from realm_core.living.view import CorpusView, ListedDocument


class DocumentMissing(Missing):
    """The corpus has no such document."""

    def __init__(self, document_id: str) -> None:
        super().__init__(f"The corpus has no document {document_id!r}.")


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DocumentEntry:
    """A document in the list. row: None: it came with the corpus and was never edited."""

    document_id: str
    title: str
    url: str
    blocks: int
    status: str  # a `DocumentStatus`
    row: Document | None

    @property
    def format(self) -> str:
        """The format that it was read from."""
        return BASE_FORMAT if self.row is None else self.row.format


@dataclass(frozen=True)
class ShownDocument(DocumentEntry):
    """One document in the current state; without text, passages and version if it was removed.

    about: its metadata. corpus: the state, as answers name it. passages: its blocks.
    """

    about: LivingDocument | Document
    corpus: str
    text: str = ""
    passages: Sequence[Block] = ()
    version: str | None = None


def active() -> Deployment:
    """The deployment whose corpus is edited and shown. EngineUnavailable if there is none."""
    deployment = Deployment.active()
    if deployment is None:
        raise EngineUnavailable("Nothing is deployed yet: there is no corpus.", retry_after_s=30)
    return deployment


def current_view() -> tuple[CorpusState | None, CorpusView]:
    """The deployed corpus, with the row of its state (None: no document was ever edited).

    EngineUnavailable if it cannot be read.
    """
    index = active().index
    row = index.state_now()
    return row, opened(index, row)


def opened(index: IndexGeneration, row: CorpusState | None) -> CorpusView:
    """The texts of a state; EngineUnavailable if they cannot be read."""
    try:
        return view_of(index, state_of(index, row))
    except RealmError as error:  # missing or damaged files are not the client's error
        _log.error("The corpus cannot be read: %s", error)
        raise EngineUnavailable("The corpus cannot be read: its files are missing or damaged.") from error


def corpus_id(index: IndexGeneration, row: CorpusState | None) -> str:
    """The name of the corpus in answers from this state."""
    edits = f"+{row.state_id}" if row is not None and row.has_edits else ""
    return f"{index.corpus.name}@{index.corpus.snapshot_id}{edits}"


def current_corpus_id() -> str:
    """The name of the deployed corpus in answers."""
    index = active().index
    return corpus_id(index, index.state_now())


def described(document_ids: Sequence[str]) -> list[DocumentEntry]:
    """The known ones of these documents, in their order."""
    index = active().index
    found = {row.document_id: of_row(row) for row in Document.objects.filter(index=index, document_id__in=document_ids)}
    _, view = current_view()
    places = view.with_ids([one for one in document_ids if one not in found])
    found |= {one.id: of_base(one) for one in view.described(list(places.values()))}
    return [found[one] for one in document_ids if one in found]


def show(document_id: str, hidden: frozenset[str] = frozenset()) -> ShownDocument:
    """One document. DocumentMissing, also for one of a hidden collection."""
    index = active().index
    row = Document.objects.filter(index=index, document_id=document_id).first()
    state, view = current_view()
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
    return ShownDocument(**vars(listed), about=about, corpus=corpus_id(index, state), **present)


def of_row(row: Document) -> DocumentEntry:
    """An edited document, as in the list."""
    return DocumentEntry(row.document_id, row.title, row.url, row.blocks, row.status, row)


def of_base(one: ListedDocument) -> DocumentEntry:
    """A document that came with the corpus, as in the list."""
    return DocumentEntry(one.id, one.title, one.url, one.blocks, DocumentStatus.CURRENT, None)
