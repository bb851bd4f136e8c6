"""Truly forgetting documents: out of segments and earlier states, and out of the evidence of kept answers.

find their blocks → files rewritten (realm_core.living.purging) → one transaction: state, ledger, kept answers, receipt

A kept answer that read them becomes what its other passages say, as `Answer.without` computes it; one that was read
from an index whose files are gone is found by the title and the address of the document. All indexes of a corpus share
the folder of their edits, so the edits above each of them are rewritten, and the documents are masked in the bases of
all. A base is not rewritten: where one holds a document, the receipt names its folders, and those of corpora that were
joined of this one or that it was joined of (they are masked before they answer, `masks.py`). A base that a fold
made is folded again for that (`webapp/documents/folding.py`), and removed a day after it was superseded
(`webapp/artefacts/removing.py`). An index that is made later is masked before it answers (`masks.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Case, QuerySet, When

from realm_core.errors import RealmError
from webapp.documents import lineage
from webapp.documents.viewing import DocumentMissing
from webapp.models import (
    BASE_FORMAT,
    AskedAnswer,
    AuditEntry,
    CorpusState,
    Deployment,
    Document,
    DocumentStatus,
    IndexGeneration,
    ModelVersion,
    Purge,
)
from webapp.originals import service as originals
from webapp.purges.masks import mask_purged
from webapp.purges.recording import emptied, record_purged
from webapp.serving.embedding import embedding_of
from webapp.serving.engine import holder
from webapp.serving.living import active, fetch_files, indexes_beside, opened, state_of, store_of
from webapp.serving.states import Overtaken, advanced, repeated
from webapp.storage.deleted_rows import empty_log
from webapp.storage.places import portable

if TYPE_CHECKING:
    from realm_core.living.purging import Receipt
    from realm_core.living.state import LivingState
    from realm_core.living.view import CorpusView

log = logging.getLogger(__name__)

# An index, and the row of its current state; None: the unchanged base.
_Place = tuple[IndexGeneration, CorpusState | None]


@dataclass(frozen=True)
class _CurrentCorpus:
    """The corpus above one index as it stands. row: None for an unchanged base."""

    index: IndexGeneration
    row: CorpusState | None
    view: CorpusView


def blocks_of(document_ids: Sequence[str], index: IndexGeneration | None = None) -> list[str]:
    """The ids of all blocks that the documents have or had, in all their versions. index: as in `purge`."""
    blocks = _blocks_of(_current_corpora(_places(index or active().index)), document_ids)
    return sorted(block_id for own in blocks.values() for block_id in own)


def purge(document_ids: Sequence[str], *, by: User | None, index: IndexGeneration | None = None) -> Purge:
    """Forget documents, all or none, those that were removed earlier included. What it does cannot be undone.

    index: of their corpus (None: the one that answers; of a folded one, what it was folded into). DocumentMissing for
    one that never was there, EditConflict; EngineUnavailable where nothing is deployed, or its files cannot be read.
    """
    above = None if index is None else index.latest
    if above is not None:
        fetch_files(above)
    purge = repeated(partial(_attempt, tuple(dict.fromkeys(document_ids)), by), above)
    if above is not None and (answering := Deployment.active()) is not None:
        mask_purged(answering.index, by=by)  # of another corpus, which may have been joined of that one
    originals.discard(file["path"] for file in purge.files)
    holder().follow()
    empty_log()
    return purge


def _attempt(
    ids: Sequence[str], by: User | None, index: IndexGeneration, model: ModelVersion, _row: CorpusState | None
) -> Purge:
    from realm_core.living.purging import NotHeld
    from realm_core.living.purging import purge as purge_files

    places = _places(index)
    corpora = _current_corpora(places)
    blocks = _blocks_of(corpora, ids)
    for document_id in ids:
        if document_id not in blocks:
            raise DocumentMissing(document_id)
    (store, state), *others = [(store_of(one.index), one.view.state) for one in corpora]
    made: list[Purge] = []

    def check() -> None:
        if places != _places(index):
            raise Overtaken

    def commit(after: LivingState, receipt: Receipt | None, after_others: Sequence[LivingState]) -> None:
        states = zip(corpora, (after, *after_others), strict=True)
        views = [store_of(one.index).view(state) for one, state in states]
        made.append(_commit(corpora, views, _views_apart(index), blocks, receipt, by))

    receipt: Receipt | None = None
    with suppress(NotHeld):  # their files have gone already, and kept answers may still quote them
        embed = embedding_of(model)
        _, receipt = purge_files(store, state, ids, embed, others=others, check=check, commit=commit)
    if not made and receipt is not None:  # an earlier purge died after its commit; its files remained
        made += [one for one in index.purges.all() if one.document_ids == sorted(blocks)][:1]
    if not made:
        commit(state, receipt, [other for _, other in others])
    return made[0]


def receipts_of(index: IndexGeneration) -> list[str]:
    """The ids of the receipts of all purges of an index's corpus, and of those that it has documents in common with."""
    indexes = [index, *indexes_beside(index), *lineage.related(index)]
    found = Purge.objects.filter(index__in=indexes).order_by("at", "pk")
    return [str(pk) for pk in found.values_list("pk", flat=True)]


def _places(index: IndexGeneration) -> list[_Place]:
    """An index and those beside it whose files are there, each with its current row; the index itself first.

    One that was folded is never deployed again, so it is not among them.
    """
    beside = [
        one
        for one in indexes_beside(index)
        if one.removed_at is None and one.corpus.removed_at is None and one.folded_into_id is None
    ]
    rows = CorpusState.objects.filter(index__in=[index, *beside], is_current=True)
    row_of = {row.index_id: row for row in rows}
    return [(one, row_of.get(one.pk)) for one in (index, *sorted(beside, key=lambda one: one.pk))]


def _current_corpora(places: Sequence[_Place]) -> list[_CurrentCorpus]:
    """The places, opened. Left out is an unedited base that cannot be read: it is masked before it answers."""
    (index, own), *others = places
    corpora = [_CurrentCorpus(index, own, opened(index, own))]
    for one, row in others:
        try:
            corpora.append(_CurrentCorpus(one, row, store_of(one).view(state_of(one, row))))
        except RealmError as error:
            if row is not None:
                raise
            log.warning("The index %s cannot be read, so nothing is purged from it: %s", one, error)
    return corpora


def _blocks_of(corpora: Sequence[_CurrentCorpus], document_ids: Sequence[str]) -> dict[str, set[str]]:
    """The block ids of each of the documents that is known, in all its versions."""
    blocks: dict[str, set[str]] = {}
    named: dict[tuple[str, str], set[str]] = {}  # the ids of documents by title and address
    for view in (one.view for one in corpora):
        places = view.with_ids(document_ids)
        for one in view.described(list(places.values())):
            named.setdefault((one.title, one.url), set()).add(one.id)
        for document_id, row in places.items():
            blocks.setdefault(document_id, set()).update(block.block_id for block in view.blocks_of_article(row))
    for document in _rows(corpora[0].index, document_ids).prefetch_related("changes"):
        own = blocks.setdefault(document.document_id, set())
        if document.status != DocumentStatus.PURGED:
            named.setdefault((document.title, document.url), set()).add(document.document_id)
        for change in document.changes.all():
            own.update(change.blocks_gone, change.blocks_new)
    for key, block_id in _read_from_others(corpora):
        for document_id in named.get(key, ()):
            blocks[document_id].add(block_id)
    return blocks


def _read_from_others(corpora: Sequence[_CurrentCorpus]) -> Iterator[tuple[tuple[str, str], str]]:
    """Title, address and id of the blocks that kept answers read from indexes which are not opened any more.

    Their files may be gone, and with them which document a block was of: title and address tell.
    """
    opened_ones = {one.index.pk for one in corpora}
    others = [one.pk for one in indexes_beside(corpora[0].index) if one.pk not in opened_ones]
    told = AskedAnswer.objects.filter(deployment__index__in=others).order_by()
    for evidence in told.values_list("payload__evidence", flat=True).iterator():
        for block in evidence:
            yield (block["title"], block["url"]), block["block_id"]


def _rows(index: IndexGeneration, document_ids: Sequence[str]) -> QuerySet[Document]:
    """The rows of documents above an index and all those beside it; the index's own first."""
    indexes = [index, *indexes_beside(index)]
    own_first = Case(When(index=index, then=0), default=1)
    return Document.objects.filter(index__in=indexes, document_id__in=document_ids).order_by(own_first, "index")


def _commit(
    corpora: Sequence[_CurrentCorpus],
    after: Sequence[CorpusView],
    apart: Sequence[CorpusView],
    blocks: dict[str, set[str]],
    receipt: Receipt | None,
    by: User | None,
) -> Purge:
    """Everything that the purge changes in the database, or Overtaken. corpora: that of the purge's index first."""
    index = corpora[0].index
    # Blocks that another document has word for word stay.
    gone = {
        document_id: sorted(one for one in own if not any(view.rows_with(one) for view in (*after, *apart)))
        for document_id, own in blocks.items()
    }
    elsewhere = _holding_elsewhere(index, {block_id for own in gone.values() for block_id in own})
    with transaction.atomic():
        states = {
            one.index.pk: advanced(one.index, one.row, one.view.state, view.state, by)
            for one, view in zip(corpora, after, strict=True)
            if one.index == index or one.row is not None or view.state != one.view.state
        }
        files = originals.receipt_files(_rows(index, [*blocks]).exclude(original="").values_list("original", flat=True))
        changes = []
        for document_id in blocks:
            for document in _every_row(corpora, document_id):
                was, now = states.get(document.index_id) or _unchanged(document)
                # Each block is once in the ledger.
                taken = gone[document_id] if document.index_id == index.pk else []
                changes.append(emptied(document, was, now, taken, by))
        answers = record_purged(changes)
        ids = sorted(blocks)
        told = _receipt_fields(receipt)
        told["files"] += files
        told["remaining"] += elsewhere
        told |= {"answers": len(answers), "answer_ids": answers}
        purge = Purge.objects.create(index=index, document_ids=ids, by=by, **told)
        AuditEntry.record("document.purge", purge, by=by, documents=purge.document_ids, receipt=str(purge.pk))
        return purge


def _views_apart(index: IndexGeneration) -> list[CorpusView]:
    """The corpus that answers, where it has nothing to do with that of an index: its documents are others."""
    deployment = Deployment.active()
    if deployment is None or deployment.index in (index, *indexes_beside(index), *lineage.related(index)):
        return []
    return [opened(deployment.index, deployment.index.state_now())]


def _unchanged(document: Document) -> tuple[CorpusState, CorpusState]:
    """The state above the index of a document, which has been removed, twice."""
    row = CorpusState.objects.get(index=document.index_id, is_current=True)
    return row, row


def _every_row(corpora: Sequence[_CurrentCorpus], document_id: str) -> list[Document]:
    """The rows of a document, also those that are to be: one above the deployed index is among them."""
    documents = list(_rows(corpora[0].index, [document_id]))
    known = {document.index_id for document in documents}
    for corpus in corpora:
        place = corpus.view.with_ids([document_id]).get(document_id)
        if corpus.index.pk in known or (place is None and corpus is not corpora[0]):
            continue
        # It came with the corpus, or was edited above other indexes alone.
        collection = documents[0].collection if place is None else corpus.view.collection_of(place)
        documents.append(
            Document(index=corpus.index, document_id=document_id, format=BASE_FORMAT, collection=collection)
        )
    return documents


def _receipt_fields(receipt: Receipt | None) -> dict[str, Any]:
    """The content of a receipt, with paths relative to the data folder."""
    if receipt is None:
        return {"blocks": 0, "files": [], "remaining": []}
    files = [
        {
            "path": portable(Path(file.path)),
            "sha256": file.sha256,
            "successor": None if file.successor is None else portable(Path(file.successor)),
            "successor_sha256": file.successor_sha256,
        }
        for file in receipt.files
    ]
    remaining = [portable(Path(folder)) for folder in receipt.remaining]
    return {"blocks": receipt.blocks, "files": files, "remaining": remaining}


def _holding_elsewhere(index: IndexGeneration, block_ids: Collection[str]) -> list[str]:
    """Folders of corpora that were joined of this one, or that it was joined of, which hold one of the blocks."""
    held: dict[str, None] = {}
    for other in lineage.related(index):
        if other.removed_at is not None or other.corpus.removed_at is not None:
            continue
        store = store_of(other)
        try:
            view = store.view(state_of(other, other.state_now()))
        except RealmError as error:
            log.warning("The index %s cannot be read, so the receipt does not say what it holds: %s", other, error)
            continue
        for layer in view.layers:
            if any(map(layer.rows_with, block_ids)):
                base = view.layers[0] is layer
                segment = portable(store.segments / layer.name)
                held |= dict.fromkeys((other.corpus.path, other.path) if base else (segment,))
    return list(held)
