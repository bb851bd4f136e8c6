"""Restoring removed documents, as long as their text is kept: as if they had never been removed.

A row says what a document was, the ledger from which state it was removed; `realm_core.living.restoring` puts it back
where it stood. What was purged is not restored, nor a passage that went with another document's purge.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef

from realm_core.errors import RealmError
from webapp.collections.service import MoreReaders, Readers, known
from webapp.documents import placing
from webapp.documents.committing import CommitHook, Edit, Edited
from webapp.documents.inputs import ReadDocument, Unreadable
from webapp.documents.versions import Versions, require
from webapp.documents.viewing import DocumentMissing
from webapp.models import (
    BASE_FORMAT,
    ChangeKind,
    CorpusChange,
    Document,
    DocumentStatus,
    GoneBlock,
    IndexGeneration,
    ModelVersion,
)
from webapp.originals import service as originals
from webapp.refusals import StateConflict
from webapp.serving.living import state_of, store_of

if TYPE_CHECKING:
    from realm_core.living.documents import LivingDocument
    from realm_core.living.restoring import Step
    from realm_core.living.state import LivingState
    from realm_core.living.view import CorpusView


log = logging.getLogger(__name__)


class NotRestored(StateConflict):
    """A document is not removed, or what it was is not kept any more."""


def restore(
    document_ids: Sequence[str],
    *,
    by: User | None,
    kept: CommitHook | None = None,
    versions: Versions = None,
    new_collection: bool = False,
    more_readers: bool = False,
) -> Edited:
    """Restore removed documents, all or none.

    kept: as for `service.add`. versions: that which it had when it was removed. new_collection, more_readers: its
    collection may be made again, and be read by more than then.
    Raises DocumentMissing, NotRestored, ChangedMeanwhile, Unreadable where another document has the same title and text
    by now, NewCollection, MoreReaders, EditConflict; EngineUnavailable if nothing is deployed.
    """
    return _Restoration(
        tuple(dict.fromkeys(document_ids)),
        lambda view: (),
        by,
        kept,
        versions=versions,
        new_collection=new_collection,
        more_readers=more_readers,
    ).made()


def can_be_restored(row: Document) -> bool:
    """Whether a document is removed, and what it was is kept. RealmError for damaged files."""
    from realm_core.living.restoring import kept

    index, removal = row.index, _last_removal(row)
    gone = index.removed_at is not None or index.corpus.removed_at is not None
    if row.status != DocumentStatus.REMOVED or removal is None or gone:
        return False
    now, before = state_of(index, index.state_now()), state_of(index, removal.before)
    return kept(store_of(index), now, before, row.document_id) is not None


def forget_originals() -> None:
    """Let removed documents that cannot be restored any more name no PDF."""
    rows = Document.objects.filter(status=DocumentStatus.REMOVED).exclude(original="").select_related("index")
    for row in rows:
        try:
            stays = can_be_restored(row)
        except RealmError as error:
            log.warning("Whether %s can be restored is looked at later: %s", row, error)
            continue
        if not stays:
            Document.objects.filter(pk=row.pk, status=DocumentStatus.REMOVED).update(original="")
            originals.discard([row.original])


@dataclass(frozen=True)
class _Restoration(Edit):
    """The edit that restores documents; the fields are those of `restore`."""

    versions: Versions = None
    new_collection: bool = False
    more_readers: bool = False

    def kind(self, old: LivingDocument | None, new: LivingDocument | None) -> ChangeKind:
        return ChangeKind.RESTORED

    def published(
        self, index: IndexGeneration, model: ModelVersion, view: CorpusView, taken: Sequence[ReadDocument]
    ) -> LivingState:
        from realm_core.living import restoring
        from realm_core.living.documents import DocumentRefused

        removals = {one: self._removal(index, view, one) for one in self.ids}
        removed_from = {one: state_of(index, change.before) for one, change in removals.items()}
        try:
            after = restoring.restore(store_of(index), view.state, removed_from, lambda: _history(index))
        except restoring.TextLost as error:
            raise _not_kept(error.document_id) from None
        except DocumentRefused as error:
            raise Unreadable(*error.reasons.values(), present=error.present) from None
        self._check(index, view, store_of(index).view(after), removals)
        return after

    def _removal(self, index: IndexGeneration, view: CorpusView, document_id: str) -> CorpusChange:
        """The change by which a document was removed; DocumentMissing, NotRestored."""
        row = Document.objects.filter(index=index, document_id=document_id).first()
        if view.with_ids([document_id]):
            raise NotRestored(f"The document {document_id!r} is not removed: there is nothing to restore.")
        if row is None:
            raise DocumentMissing(document_id)
        if row.status != DocumentStatus.REMOVED:  # purged, or masked because another corpus's purge took its passages
            raise NotRestored(f"The document {document_id!r} was purged, so nothing of it can be restored.")
        removal = _last_removal(row)
        if removal is None:
            raise _not_kept(document_id)
        return removal

    def _check(
        self, index: IndexGeneration, before: CorpusView, after: CorpusView, removals: Mapping[str, CorpusChange]
    ) -> None:
        """Refuse what must not come back, or not without confirmation."""
        there = known(before, index.corpus.name)
        for document_id, place in after.with_ids(removals).items():
            document = after.document(place)
            require(document, self.versions)
            blocks = [block.block_id for block in after.blocks_of_article(place)]
            if GoneBlock.purged(blocks):
                raise NotRestored(
                    f"A passage of the document {document_id!r} was purged with another one, so it is not restored."
                )
            then, now = removals[document_id].readers, there.readers_of(document.collection)
            if then not in (str(Readers()), str(now)) and not self.more_readers:
                # Removals of versions before this was recorded do not say it.
                could = f"which {then} could read" if then else "and it is not known who could read it"
                raise MoreReaders(
                    f"“{document.title}” is of the collection “{document.collection}”, {could} when it was removed; "
                    f"now {now} would read it: confirm that (more_readers).",
                    collection=document.collection,
                )
            put = ReadDocument(document, BASE_FORMAT, new_collection=self.new_collection)
            placing.require([put], before, index.corpus.name)


def _not_kept(document_id: str) -> NotRestored:
    return NotRestored(
        f"The text of the document {document_id!r} is not kept any more, so it cannot be restored: add it as a new one."
    )


def _last_removal(row: Document) -> CorpusChange | None:
    """The change that removed a document; None: that was above another index, or one that was folded since."""
    removals = row.changes.filter(kind=ChangeKind.REMOVED).select_related("before")
    removal = removals.first()
    return removal if removal is not None and removal.before.index_id == row.index_id else None


def _history(index: IndexGeneration) -> Iterator[Step]:
    """All states above an index, the earliest first."""
    from realm_core.living.restoring import Step

    restored = CorpusChange.objects.filter(after=OuterRef("pk"), kind=ChangeKind.RESTORED)
    rows = index.states.order_by("pk").values_list("state__segments", "state__purges", Exists(restored))
    for segments, purges, restoring in rows.iterator():
        yield Step(tuple(segments), purges, restoring)
