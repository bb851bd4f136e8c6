"""Editing the documents of the deployed corpus, for page, REST API and command line alike.

read → plan, pack, embed, publish a segment (realm_core.living) → commit the rows → open the new state

A published segment has no effect until the row of its state is the current one, so an edit that dies at any time has
either happened or not. Of two simultaneous edits one wins; the other is repeated on the resulting state.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from django.contrib.auth.models import User
from django.db import transaction

from webapp.collections.service import known, known_now
from webapp.documents import fetching, languages, placing
from webapp.documents.inputs import DocumentInput, ReadDocument, Unreadable, checked, named, read
from webapp.documents.versions import Versions, require
from webapp.documents.viewing import DocumentMissing, place_of
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
from webapp.refusals import StateConflict
from webapp.serving.embedding import embedding_of
from webapp.serving.engine import holder
from webapp.serving.living import active, current_view, opened, store_of
from webapp.serving.states import Overtaken, advanced, repeated

if TYPE_CHECKING:
    from realm_core.living.documents import LivingDocument
    from realm_core.living.view import CorpusView


@dataclass(frozen=True)
class Edited:
    """The result of an edit. document_ids: of all inputs or removed documents. changes: one per changed document.

    new_collections: names of those that it made. timings_ms: read, publish (with embedding), commit, open. replaced:
    paths of the kept PDFs that were theirs before.
    """

    document_ids: list[str]
    changes: list[CorpusChange] = field(default_factory=list)
    new_collections: list[str] = field(default_factory=list)
    timings_ms: dict[str, float] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)


class DocumentExists(StateConflict):
    """A document to be added exists already."""

    def __init__(self, document_id: str) -> None:
        super().__init__(f"The corpus has a document {document_id!r} already; change that one.")


CommitHook = Callable[[Edited], None]


def add(given: Sequence[DocumentInput], *, by: User | None, kept: CommitHook | None = None) -> Edited:
    """Add documents, all or none.

    kept: called in the transaction that commits; if it raises, the edit is undone.
    Raises InvalidRequest, Unreadable, DocumentExists, NewCollection, EditConflict; EngineUnavailable if nothing is
    deployed.
    """
    began = time.perf_counter()
    taken, own = read_inputs(given), active().index.corpus.name
    ids = [one.document.id for one in taken]

    def look(view: CorpusView) -> None:
        if there := view.with_ids(ids):
            raise DocumentExists(next(one for one in ids if one in there))
        placing.require(taken, view, own)

    return _written(taken, look, by, kept, began)


def change(
    document_id: str,
    given: DocumentInput,
    *,
    by: User | None,
    kept: CommitHook | None = None,
    versions: Versions = None,
) -> Edited:
    """Replace a document; what is not given of it (`DocumentInput`) stays.

    Raises DocumentMissing, ChangedMeanwhile, MoreReaders, and as `add` does.
    """
    began = time.perf_counter()
    [taken], own = read_inputs([given], document_id), active().index.corpus.name

    def look(view: CorpusView) -> None:
        present = view.document(place_of(document_id, view))
        require(present, versions)
        if taken.text_of is not None and present != taken.text_of:
            raise Overtaken  # another edit has changed it since it was read
        placing.require([taken], view, own)

    return _written([taken], look, by, kept, began)


def add_or_change(given: Sequence[DocumentInput], *, by: User | None, kept: CommitHook | None = None) -> Edited:
    """Write documents, all or none: one whose id is there in its place, of which what is not given stays; others anew.

    Raises as `add` does, and MoreReaders; DocumentExists where one was added meanwhile, or a file's row has its id.
    """
    began = time.perf_counter()
    checked(given)
    view, own = current_view(), active().index.corpus.name
    places = view.with_ids([one.document_id for one in given if one.document_id])
    before = {document_id: view.document(place) for document_id, place in places.items()}
    taken = _read_inputs(given, [before.get(one.document_id) for one in given])

    def look(view: CorpusView) -> None:
        there = view.with_ids([one.document.id for one in taken])
        if added := there.keys() - before.keys():
            raise DocumentExists(min(added))
        if there.keys() != before.keys():
            raise Overtaken
        for one in taken:
            if one.text_of is not None and view.document(there[one.document.id]) != one.text_of:
                raise Overtaken
        placing.require(taken, view, own)

    return _written(taken, look, by, kept, began)


def remove(
    document_ids: Sequence[str], *, by: User | None, kept: CommitHook | None = None, versions: Versions = None
) -> Edited:
    """Remove documents, all or none.

    Raises DocumentMissing, ChangedMeanwhile, EditConflict; EngineUnavailable if nothing is deployed.
    """
    ids = tuple(dict.fromkeys(document_ids))

    def look(view: CorpusView) -> None:
        there = view.with_ids(ids)
        for document_id in ids:
            if document_id not in there:
                raise DocumentMissing(document_id)
            require(view.document(there[document_id]), versions)

    return _Edit((), ids, look, by, kept).made()


def put(
    taken: Sequence[ReadDocument],
    removed: Sequence[str],
    *,
    by: User | str | None,
    above: IndexGeneration | None = None,
) -> Edited:
    """Write documents that were read already, in the place of those with their ids, and take others out; all or none.

    A document whose id is not there is added; one to be taken out must be there.
    above: an index that does not answer yet; None: the one that answers.
    Unreadable, EditConflict; EngineUnavailable where nothing is deployed.
    """
    return _Edit(taken, removed, lambda view: None, by, above=above).made()


def content_hash(document: LivingDocument) -> str:
    """SHA-256 of title and text, as the row of a document keeps it."""
    return hashlib.sha256(f"{document.title}\n{document.text}".encode()).hexdigest()


def _written(
    taken: Sequence[ReadDocument],
    look: Callable[[CorpusView], None],
    by: User | None,
    kept: CommitHook | None,
    began: float,
) -> Edited:
    """Write documents that were read since `began`, and keep their PDFs."""
    taken = [_with_file(one) for one in taken]
    taken = [one if one.pdf is None else replace(one, original=originals.keep(one.pdf)) for one in taken]
    read_ms = (time.perf_counter() - began) * 1e3
    try:
        return _Edit(taken, (), look, by, kept, timings_ms={"read": read_ms}).made()
    finally:  # nothing names those of an edit that was refused, or that changed nothing
        originals.discard(one.original for one in taken)


def read_inputs(given: Sequence[DocumentInput], changed_id: str | None = None) -> list[ReadDocument]:
    """The documents that an edit would write. changed_id: of the one whose place the only one takes.

    Raises InvalidRequest, Unreadable, DocumentMissing.
    """
    checked(given)
    if changed_id is None:
        return _read_inputs(given, [None] * len(given))
    view = current_view()  # before anything is fetched or read
    return _read_inputs(given, [view.document(place_of(changed_id, view))], only_one=True)


def _read_inputs(
    given: Sequence[DocumentInput], own: Sequence[LivingDocument | None], *, only_one: bool = False
) -> list[ReadDocument]:
    """The documents that valid inputs hold. own: the document in whose place each is written; None: it is a new one."""
    corpus = active().index.corpus
    fetched = [
        one if present is None else one.with_own(present)
        for one, present in zip(fetching.fetched(given), own, strict=True)
    ]
    there = known_now()
    return [
        replace(one, document=replace(one.document, collection=there.called(one.document.collection)))
        for one in read(fetched, corpus, only_one=only_one)
    ]


def _with_file(taken: ReadDocument) -> ReadDocument:
    """For a document that keeps its text: with what is known of the file that the text was read from."""
    if taken.text_of is None:
        return taken
    row = Document.objects.filter(index=active().index, document_id=taken.document.id).first()
    if row is None:
        return taken
    warnings = row.warnings
    if row.language != taken.document.language:
        warnings = [*languages.without(warnings), *taken.warnings]
    return replace(taken, format=row.format, original=row.original, warnings=tuple(warnings))


@dataclass(frozen=True)
class _Edit:
    """taken: documents to write. removed: ids to remove. look: refuses what does not fit a state.

    above: as in `put`. timings_ms: of what came before.
    """

    taken: Sequence[ReadDocument]
    removed: Sequence[str]
    look: Callable[[CorpusView], None]
    by: User | str | None
    kept: CommitHook | None = None
    above: IndexGeneration | None = None
    timings_ms: dict[str, float] = field(default_factory=dict)

    @property
    def person(self) -> User | None:
        return self.by if isinstance(self.by, User) else None

    @property
    def ids(self) -> list[str]:
        return [*(one.document.id for one in self.taken), *self.removed]

    def made(self) -> Edited:
        return repeated(self._attempt, self.above)

    def _attempt(self, index: IndexGeneration, model: ModelVersion, row: CorpusState | None) -> Edited:
        from realm_core.living.documents import Changes, DocumentRefused
        from realm_core.living.editing import edit as edit_corpus

        changes = Changes(tuple(one.document for one in self.taken), tuple(self.removed))
        began = time.perf_counter()
        store, embed = store_of(index), embedding_of(model)
        view = opened(index, row)
        self.look(view)
        try:
            after = edit_corpus(store, view.state, changes, embed)
        except DocumentRefused as error:
            files = {one.document.id: one.name for one in self.taken}
            reasons = (named(files.get(one, ""), why) for one, why in error.reasons.items())
            raise Unreadable(*reasons, present=error.present) from None
        published = time.perf_counter()
        edited = self._commit(index, row, view, store.view(after))
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

    def _commit(self, index: IndexGeneration, row: CorpusState | None, before: CorpusView, after: CorpusView) -> Edited:
        """Make the new state the current one, with all rows of the edit, or raise Overtaken."""
        with transaction.atomic():
            if self.above is None:
                # A deployment locks this row, too: it sees this edit, or this edit goes above what it deployed.
                answering = Deployment.objects.select_for_update(no_key=True).filter(is_active=True, index=index)
                if not answering.exists():
                    raise Overtaken
            edited = Edited(self.ids)
            if before.state != after.state:
                self._store(edited, index, row, before, after)
            _attach(index, self.taken)
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
    ) -> None:
        """The rows of an edit that changes something, in `edited`."""
        # Before the first edit there is no row of a state that a fold would have changed.
        if row is None and IndexGeneration.every.select_for_update().get(pk=index.pk).folded_into_id is not None:
            raise Overtaken
        row, current = advanced(index, row, before.state, after.state, self.person)
        taken = {one.document.id: one for one in self.taken}
        was, now = before.with_ids(self.ids), after.with_ids(self.ids)
        there = known(before, index.corpus.name)
        for document_id in self.ids:
            old = before.document(was[document_id]) if document_id in was else None
            new = after.document(now[document_id]) if document_id in now else None
            if old == new:
                continue
            document = Document.objects.filter(index=index, document_id=document_id).first()
            document = document or Document(index=index, document_id=document_id, format=BASE_FORMAT)
            edited.replaced.append(document.original)
            _update(document, old, new, taken.get(document_id), self.person)
            old_blocks = _block_ids(before, was.get(document_id))
            new_blocks = _block_ids(after, now.get(document_id))
            kind = ChangeKind.ADDED if old is None else ChangeKind.REMOVED if new is None else ChangeKind.CHANGED
            document.status, action = _OUTCOMES[kind]
            document.blocks = len(new_blocks)
            document.save()
            put = None if new is None else placing.Placing.of(old.collection if old else "", new.collection, there)
            if put is not None and put.is_new and put.collection not in edited.new_collections:
                edited.new_collections.append(put.collection)
            told = {} if put is None or not (put.moved or old is None) else _told(put)
            change = CorpusChange.objects.create(
                kind=kind,
                document=document,
                before=row,
                after=current,
                blocks_gone=[one for one in old_blocks if not after.rows_with(one)],
                blocks_new=[one for one in new_blocks if not before.rows_with(one)],
                by=self.person,
                **told,
            )
            edited.changes.append(change)
            AuditEntry.record(action, document, by=self.by, state=after.state.id, blocks=document.blocks, **told)
        GoneBlock.follow(edited.changes)


# The status of a document after a change, and the action in the audit trail.
_OUTCOMES: Final = {
    ChangeKind.ADDED: (DocumentStatus.CURRENT, "document.add"),
    ChangeKind.CHANGED: (DocumentStatus.CHANGED, "document.change"),
    ChangeKind.REMOVED: (DocumentStatus.REMOVED, "document.remove"),
}


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
    if new is not None:
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
