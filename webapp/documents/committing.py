"""Making one edit: publish a segment (realm_core.living), commit the rows, open the new state.

Of two simultaneous edits one wins; the other is repeated on the resulting state.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from django.contrib.auth.models import User
from django.db import transaction

from webapp.collections.service import known
from webapp.documents import languages, placing
from webapp.documents.inputs import ReadDocument, Unreadable, named
from webapp.documents.versions import version_of
from webapp.models import (
    BASE_FORMAT,
    GONE,
    AuditEntry,
    ChangeKind,
    CorpusChange,
    CorpusState,
    Deployment,
    Document,
    DocumentStatus,
    GoneBlock,
    IndexGeneration,
    ModelVersion,
)
from webapp.originals import service as originals
from webapp.serving.embedding import embedding_of
from webapp.serving.engine import holder
from webapp.serving.living import corpus_id, opened, store_of
from webapp.serving.states import Overtaken, advanced, repeated

if TYPE_CHECKING:
    from realm_core.living.documents import LivingDocument
    from realm_core.living.state import LivingState
    from realm_core.living.view import CorpusView


@dataclass(frozen=True)
class Edited:
    """The result of an edit. document_ids: of all inputs or removed documents. changes: one per changed document.

    corpus: the state that it committed, named as in answers; empty: it is not told. versions: by id, as that state has
    them, whatever others have made of them since; None: removed.
    new_collections: names of those that it made. timings_ms: read, publish (with embedding), commit, open. replaced:
    paths of the kept PDFs that were theirs before.
    """

    document_ids: list[str]
    changes: list[CorpusChange] = field(default_factory=list)
    corpus: str = ""
    versions: Mapping[str, str | None] = field(default_factory=dict)
    new_collections: list[str] = field(default_factory=list)
    timings_ms: dict[str, float] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)


CommitHook = Callable[[Edited], None]


def content_hash(document: LivingDocument) -> str:
    """SHA-256 of title and text, as the row of a document keeps it."""
    return hashlib.sha256(f"{document.title}\n{document.text}".encode()).hexdigest()


def _with_file(index: IndexGeneration, taken: ReadDocument) -> ReadDocument:
    """With its PDF kept; for a document that keeps its text: with what is known of the file that it was read from."""
    if taken.pdf is not None:
        return replace(taken, original=originals.keep(taken.pdf))
    if taken.text_of is None:
        return taken
    row = Document.objects.filter(index=index, document_id=taken.document.id).first()
    if row is None:
        return taken
    warnings = row.warnings
    if row.language != taken.document.language:
        warnings = [*languages.without(warnings), *taken.warnings]
    return replace(taken, format=row.format, original=row.original, warnings=tuple(warnings))


@dataclass(frozen=True)
class Edit:
    """Writes documents and removes others, all or none.

    ids: of those to remove; of a restoration, to restore. look: the documents to write above a state; refuses what does
    not fit it. above: as in `put`. timings_ms: of what came before.
    """

    ids: Sequence[str]
    look: Callable[[CorpusView], Sequence[ReadDocument]]
    by: User | str | None
    kept: CommitHook | None = None
    above: IndexGeneration | None = None
    timings_ms: dict[str, float] = field(default_factory=dict)

    @property
    def person(self) -> User | None:
        return self.by if isinstance(self.by, User) else None

    def made(self) -> Edited:
        return repeated(self._attempt, self.above)

    def _attempt(self, index: IndexGeneration, model: ModelVersion, row: CorpusState | None) -> Edited:
        view, taken = opened(index, row), list[ReadDocument]()
        try:
            for one in self.look(view):
                taken.append(_with_file(index, one))
            return self._made_above(index, model, row, view, taken)
        finally:  # nothing names the PDFs of an edit that was refused or overtaken, or that changed nothing
            originals.discard(one.original for one in taken)

    def _made_above(
        self,
        index: IndexGeneration,
        model: ModelVersion,
        row: CorpusState | None,
        view: CorpusView,
        taken: Sequence[ReadDocument],
    ) -> Edited:
        """view: of the state in `row`. taken: what is written."""
        began = time.perf_counter()
        after = self.published(index, model, view, taken)
        published = time.perf_counter()
        edited = self._commit(index, row, view, store_of(index).view(after), taken)
        committed = time.perf_counter()
        originals.discard(edited.replaced)
        holder().follow()
        done = time.perf_counter()
        edited.timings_ms.update(
            self.timings_ms,
            publish=(published - began) * 1e3,
            commit=(committed - published) * 1e3,
            open=(done - committed) * 1e3,
        )
        return edited

    def published(
        self, index: IndexGeneration, model: ModelVersion, view: CorpusView, taken: Sequence[ReadDocument]
    ) -> LivingState:
        """The state after the edit, whose files are there; nothing names it yet."""
        from realm_core.living.documents import Changes, DocumentRefused
        from realm_core.living.editing import edit as edit_corpus

        changes = Changes(tuple(one.document for one in taken), tuple(self.ids))
        try:
            return edit_corpus(store_of(index), view.state, changes, embedding_of(model))
        except DocumentRefused as error:
            files = {one.document.id: one.name for one in taken}
            reasons = (named(files.get(one, ""), why) for one, why in error.reasons.items())
            raise Unreadable(*reasons, present=error.present) from None

    def kind(self, old: LivingDocument | None, new: LivingDocument | None) -> ChangeKind:
        """What the edit does to a document that is another one before and after it."""
        return ChangeKind.ADDED if old is None else ChangeKind.REMOVED if new is None else ChangeKind.CHANGED

    def _commit(
        self,
        index: IndexGeneration,
        row: CorpusState | None,
        before: CorpusView,
        after: CorpusView,
        taken: Sequence[ReadDocument],
    ) -> Edited:
        """Make the new state the current one, with all rows of the edit, or raise Overtaken."""
        ids = [*(one.document.id for one in taken), *self.ids]
        there = after.with_ids(ids)
        versions = {one: version_of(after.document(there[one])) if one in there else None for one in ids}
        with transaction.atomic():
            if self.above is None:
                # A deployment locks this row, too: it sees this edit, or this edit goes above what it deployed.
                answering = Deployment.objects.select_for_update(no_key=True).filter(is_active=True, index=index)
                if not answering.exists():
                    raise Overtaken
            edited = Edited(ids, versions=versions)
            if before.state != after.state:
                row = self._store(edited, index, row, before, after, {one.document.id: one for one in taken})
            edited = replace(edited, corpus=corpus_id(index, row))
            _attach(index, taken)
            if self.kept is not None:
                self.kept(edited)
            return edited

    def _store(
        self,
        edited: Edited,
        index: IndexGeneration,
        row: CorpusState | None,
        before: CorpusView,
        after: CorpusView,
        taken: Mapping[str, ReadDocument],
    ) -> CorpusState:
        """The rows of an edit that changes something, in `edited`; that of its state. taken: what is written, by id."""
        # Before the first edit there is no row of a state that a fold would have changed.
        if row is None and IndexGeneration.every.select_for_update().get(pk=index.pk).folded_into_id is not None:
            raise Overtaken
        row, current = advanced(index, row, before.state, after.state, self.person)
        ids = edited.document_ids
        was, now = before.with_ids(ids), after.with_ids(ids)
        there = known(before, index.corpus.name)
        for document_id in ids:
            old = before.document(was[document_id]) if document_id in was else None
            new = after.document(now[document_id]) if document_id in now else None
            if old == new:
                continue
            document = Document.objects.filter(index=index, document_id=document_id).first()
            document = document or Document(index=index, document_id=document_id, format=BASE_FORMAT)
            kind = self.kind(old, new)
            if kind in (ChangeKind.ADDED, ChangeKind.CHANGED):
                edited.replaced.append(document.original)
            if kind != ChangeKind.RESTORED:  # the row says what it said then
                _update(document, old, new, taken.get(document_id), self.person)
            old_blocks = _block_ids(before, was.get(document_id))
            new_blocks = _block_ids(after, now.get(document_id))
            # A purge may have been committed since the restoration looked; now that `advanced` has the state, none is.
            if kind == ChangeKind.RESTORED and (
                document.status != DocumentStatus.REMOVED or GoneBlock.purged(new_blocks)
            ):
                raise Overtaken
            document.status, action = _OUTCOMES[kind]
            if kind == ChangeKind.RESTORED:
                document.status = _status_before(document)
            document.blocks = len(new_blocks)
            document.save()
            put = None if new is None else placing.Placing.of(old.collection if old else "", new.collection, there)
            if put is not None and put.is_new and put.collection not in edited.new_collections:
                edited.new_collections.append(put.collection)
            told = {} if put is None or not (put.moved or old is None) else _told(put)
            # Who restores the document confirms it where more would read it by then.
            readers = {"readers": str(there.readers_of(old.collection))} if new is None and old is not None else {}
            change = CorpusChange.objects.create(
                kind=kind,
                document=document,
                before=row,
                after=current,
                blocks_gone=[one for one in old_blocks if not after.rows_with(one)],
                blocks_new=[one for one in new_blocks if not before.rows_with(one)],
                by=self.person,
                **told,
                **readers,
            )
            edited.changes.append(change)
            AuditEntry.record(action, document, by=self.by, state=after.state.id, blocks=document.blocks, **told)
        GoneBlock.follow(edited.changes)
        return current


# The status of a document after a change, and the action in the audit trail.
_OUTCOMES: Final = {
    ChangeKind.ADDED: (DocumentStatus.CURRENT, "document.add"),
    ChangeKind.CHANGED: (DocumentStatus.CHANGED, "document.change"),
    ChangeKind.REMOVED: (DocumentStatus.REMOVED, "document.remove"),
    ChangeKind.RESTORED: (DocumentStatus.CURRENT, "document.restore"),
}


def _status_before(document: Document) -> DocumentStatus:
    """The status that a document had before it was removed."""
    written = document.changes.filter(kind__in=(ChangeKind.ADDED, ChangeKind.CHANGED)).first()
    is_changed = written is not None and written.kind == ChangeKind.CHANGED
    return DocumentStatus.CHANGED if is_changed else DocumentStatus.CURRENT


def _attach(index: IndexGeneration, taken: Sequence[ReadDocument]) -> None:
    """Let unchanged documents of which no PDF was kept name the one that they were read from again."""
    for one in taken:
        if one.original:
            rows = Document.objects.filter(index=index, document_id=one.document.id, original="")
            rows.exclude(status__in=GONE).update(original=one.original)


def _update(
    document: Document,
    old: LivingDocument | None,
    new: LivingDocument | None,
    taken: ReadDocument | None,
    by: User | None,
) -> None:
    """Set what a row says of its document, without saving it. taken: what that was read from; None: it was removed."""
    shown = new or old
    assert shown is not None
    if new is not None:  # of a removed one all of this stays, so that it can be restored
        document.format = taken.format if taken else ""
        document.original, document.warnings = (taken.original, list(taken.warnings)) if taken else ("", [])
    if old is None:
        document.added_by = by
    document.title, document.url, document.licence = shown.title, shown.url, shown.licence
    document.attribution, document.language, document.date = shown.attribution, shown.language, shown.date
    document.tags, document.collection = list(shown.tags), shown.collection
    document.content_hash = content_hash(shown)


def _told(put: placing.Placing) -> dict[str, str]:
    """What the ledger and the audit trail say of the collection that a document was put into."""
    return {"moved_from": put.before, "collection": put.collection, "readers": str(put.readers)}


def _block_ids(view: CorpusView, row: int | None) -> list[str]:
    return [] if row is None else [block.block_id for block in view.blocks_of_article(row)]
