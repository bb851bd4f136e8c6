"""Truly forgetting documents: out of segments and earlier states, and out of the evidence of kept answers.

find their blocks → files rewritten (realm_core.living.purging) → one transaction: state, ledger, kept answers, receipt

A kept answer that read them becomes what its other passages say, as `Answer.without` computes it. The base of the
corpus is not rewritten: where it holds a document, the receipt names its folders. A base that a fold made is folded
again for that (`folding.py`), and removed a day after it was superseded (`webapp/artefacts/removing.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from webapp.documents.reading import BASE_FORMAT
from webapp.documents.service import EditConflict, state_row
from webapp.documents.viewing import DocumentMissing, active, opened
from webapp.models import (
    AskedAnswer,
    AuditEntry,
    ChangeKind,
    CorpusChange,
    CorpusState,
    Document,
    DocumentStatus,
    EvidenceBlock,
    GoneBlock,
    IndexGeneration,
    Purge,
)
from webapp.serving.embedding import embedding_of
from webapp.serving.engine import holder
from webapp.serving.living import store_of
from webapp.storage.places import portable

if TYPE_CHECKING:
    from realm_core.living.purging import Receipt
    from realm_core.living.state import CorpusState as State
    from realm_core.living.view import CorpusView

PURGED_TITLE: Final = "Purged document"
_ATTEMPTS: Final = 5
_AT_ONCE: Final = 500  # ids in one query


class _Overtaken(Exception):
    """An edit was committed meanwhile."""


def blocks_of(document_ids: Sequence[str]) -> list[str]:
    """The ids of all blocks that the documents have or had, in all their versions."""
    index = active().index
    view = opened(index, index.current_state)
    return sorted(block_id for own in _blocks_of(index, view, document_ids).values() for block_id in own)


def purge(document_ids: Sequence[str], *, by: User | None) -> Purge:
    """Forget documents, all or none, those that were removed earlier included. What it does cannot be undone.

    DocumentMissing for one that never was there, EditConflict; EngineUnavailable where nothing is deployed.
    """
    from realm_core.living.purging import NotHeld
    from realm_core.living.purging import purge as purge_files
    from realm_core.runs.activity import Activity

    ids = tuple(dict.fromkeys(document_ids))
    for _ in range(_ATTEMPTS):
        deployment = active()  # a fold that overtakes a purge changes the index
        index = deployment.index
        store = store_of(index)
        row = index.states.filter(is_current=True).first()
        view = opened(index, row)
        blocks = _blocks_of(index, view, ids)
        for document_id in ids:
            if document_id not in blocks:
                raise DocumentMissing(document_id)
        made: list[Purge] = []

        def commit(
            after: State,
            receipt: Receipt | None,
            index: IndexGeneration = index,
            row: CorpusState | None = row,
            view: CorpusView = view,
            blocks: dict[str, set[str]] = blocks,
            made: list[Purge] = made,
        ) -> None:
            made.append(_commit(index, row, view, store_of(index).view(after), blocks, receipt, by))

        try:
            try:
                purge_files(store, view.state, ids, embedding_of(deployment.model), Activity(quiet=True), commit=commit)
            except NotHeld:  # their files have gone already, and kept answers may still quote them
                commit(view.state, None)
        except _Overtaken:
            continue
        holder().follow()
        # Where an earlier purge of the same documents died behind its commit, its files alone were left to remove.
        return made[0] if made else index.purges.latest("at")
    raise EditConflict


def cut_purged() -> int:
    """Take purged passages out of kept answers; how many answers had one.

    An answer that was being read while a purge was committed is kept behind it.
    """
    purged = GoneBlock.objects.filter(change__kind=ChangeKind.PURGED).values("block_id")
    block_ids = set(EvidenceBlock.objects.filter(block_id__in=purged).values_list("block_id", flat=True))
    if not block_ids:
        return 0
    with transaction.atomic():
        return _cut(block_ids)


def _blocks_of(index: IndexGeneration, view: CorpusView, document_ids: Sequence[str]) -> dict[str, set[str]]:
    """The block ids of each of the documents that is known, in all its versions."""
    blocks: dict[str, set[str]] = {
        document_id: {block.block_id for block in view.blocks_of_article(row)}
        for document_id, row in view.with_ids(document_ids).items()
    }
    for document in Document.objects.filter(index=index, document_id__in=document_ids).prefetch_related("changes"):
        own = blocks.setdefault(document.document_id, set())
        for change in document.changes.all():
            own.update(change.blocks_gone, change.blocks_new)
    return blocks


def _commit(
    index: IndexGeneration,
    row: CorpusState | None,
    before: CorpusView,
    after: CorpusView,
    blocks: dict[str, set[str]],
    receipt: Receipt | None,
    by: User | None,
) -> Purge:
    with transaction.atomic():
        if row is None:  # what the first edit changed
            row = state_row(index, before.state, None)
        current = row
        if after.state != before.state:
            if not CorpusState.objects.filter(pk=row.pk, is_current=True).update(is_current=False):
                raise _Overtaken
            current = state_row(index, after.state, by)
        elif not CorpusState.objects.filter(pk=row.pk, is_current=True).exists():
            raise _Overtaken
        changes = []
        for document_id, own in blocks.items():
            changes.append(
                CorpusChange.objects.create(
                    kind=ChangeKind.PURGED,
                    document=_emptied(index, before, document_id),
                    before=row,
                    after=current,
                    # What another document has word for word stays with that one.
                    blocks_gone=sorted(one for one in own if after.row_of(one) is None),
                    by=by,
                )
            )
        GoneBlock.follow(changes)
        answers = _cut({block_id for change in changes for block_id in change.blocks_gone})
        purge = Purge.objects.create(index=index, document_ids=sorted(blocks), answers=answers, by=by, **_told(receipt))
        AuditEntry.record("document.purge", purge, by=by, documents=purge.document_ids, receipt=str(purge.pk))
        return purge


def _emptied(index: IndexGeneration, before: CorpusView, document_id: str) -> Document:
    """The row of a document, of which its id and its collection alone are left."""
    document = Document.objects.filter(index=index, document_id=document_id).first()
    if document is None:  # it came with the corpus
        collection = before.collection_of(before.with_ids([document_id])[document_id])
        document = Document(index=index, document_id=document_id, format=BASE_FORMAT, collection=collection)
    document.title, document.status, document.blocks = PURGED_TITLE, DocumentStatus.PURGED, 0
    document.url = document.licence = document.attribution = document.language = document.content_hash = ""
    document.date, document.tags = None, []
    document.save()
    return document


def _told(receipt: Receipt | None) -> dict[str, Any]:
    """What a receipt says, with paths relative to the data folder."""
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


def _cut(block_ids: Collection[str]) -> int:
    """Take blocks out of all kept answers; how many answers had one."""
    from realm_core.serving.provenance import Answer

    wanted = sorted(block_ids)
    answers: set[Any] = set()
    for start in range(0, len(wanted), _AT_ONCE):
        evidence = EvidenceBlock.objects.filter(block_id__in=wanted[start : start + _AT_ONCE])
        answers.update(evidence.values_list("answer_id", flat=True))
    removed = frozenset(wanted)
    for answer_id in answers:
        asked = AskedAnswer.objects.select_for_update().filter(pk=answer_id).first()
        if asked is None:  # retention has removed it meanwhile
            continue
        left = Answer.from_dict(asked.payload).without(removed)
        asked.tell(left)
        asked.purged_at = timezone.now()
        asked.save()
        asked.evidence.all().delete()
        EvidenceBlock.keep(asked, left)
    return len(answers)
