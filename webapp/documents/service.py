"""Editing the documents of the deployed corpus, for page, REST API and command line alike.

read → plan, pack, embed, publish a segment (realm_core.living) → commit the rows → open the new state

A published segment has no effect until the row of its state is the current one, so an edit that dies at any time has
either happened or not. Of two simultaneous edits one wins; the other is repeated on the resulting state.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from django.contrib.auth.models import User
from django.db import transaction

from webapp.collections.service import known, known_now
from webapp.documents import fetching, languages, placing
from webapp.documents.inputs import DocumentInput, ReadDocument, Unreadable, checked, named, read
from webapp.documents.versions import Versions, require, version_of
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

    versions: by id, as the state that it committed has them, whatever others have made of them since; None: removed.
    new_collections: names of those that it made. timings_ms: read, publish (with embedding), commit, open. replaced:
    paths of the kept PDFs that were theirs before.
    """

    document_ids: list[str]
    changes: list[CorpusChange] = field(default_factory=list)
    versions: Mapping[str, str | None] = field(default_factory=dict)
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
    inputs, own = Inputs(given), active().index.corpus.name

    def look(view: CorpusView) -> list[ReadDocument]:
        taken = inputs.above(view)
        ids = [one.document.id for one in taken]
        if there := view.with_ids(ids):
            raise DocumentExists(next(one for one in ids if one in there))
        placing.require(taken, view, own)
        return taken

    return _written(look, by, kept, began)


def change(
    document_id: str,
    given: DocumentInput,
    *,
    by: User | None,
    kept: CommitHook | None = None,
    versions: Versions = None,
) -> Edited:
    """Replace a document; what is not given of it (`DocumentInput`) stays as the last edit before this one left it.

    Raises DocumentMissing, ChangedMeanwhile, MoreReaders, and as `add` does.
    """
    began = time.perf_counter()
    inputs, own = Inputs([given], document_id), active().index.corpus.name

    def look(view: CorpusView) -> list[ReadDocument]:
        require(view.document(place_of(document_id, view)), versions)
        taken = inputs.above(view)
        placing.require(taken, view, own)
        return taken

    return _written(look, by, kept, began)


def add_or_change(given: Sequence[DocumentInput], *, by: User | None, kept: CommitHook | None = None) -> Edited:
    """Write documents, all or none: one whose id is there as by `change`, any other as by `add`.

    Raises as `add` does, and MoreReaders; DocumentExists where one was added meanwhile, or a file's row has its id, and
    EditConflict where one was removed meanwhile.
    """
    began = time.perf_counter()
    before = current_view().with_ids([one.document_id for one in given if one.document_id]).keys()
    inputs, own = Inputs(given), active().index.corpus.name

    def look(view: CorpusView) -> list[ReadDocument]:
        if before != view.with_ids(before).keys():
            raise Overtaken
        taken = inputs.above(view)
        if added := view.with_ids([one.document.id for one in taken]).keys() - before:
            raise DocumentExists(min(added))
        placing.require(taken, view, own)
        return taken

    return _written(look, by, kept, began)


def remove(
    document_ids: Sequence[str], *, by: User | None, kept: CommitHook | None = None, versions: Versions = None
) -> Edited:
    """Remove documents, all or none.

    Raises DocumentMissing, ChangedMeanwhile, EditConflict; EngineUnavailable if nothing is deployed.
    """
    ids = tuple(dict.fromkeys(document_ids))

    def look(view: CorpusView) -> tuple[()]:
        there = view.with_ids(ids)
        for document_id in ids:
            if document_id not in there:
                raise DocumentMissing(document_id)
            require(view.document(there[document_id]), versions)
        return ()

    return _Edit(ids, look, by, kept).made()


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
    return _Edit(removed, lambda view: taken, by, above=above).made()


def content_hash(document: LivingDocument) -> str:
    """SHA-256 of title and text, as the row of a document keeps it."""
    return hashlib.sha256(f"{document.title}\n{document.text}".encode()).hexdigest()


class Inputs:
    """The inputs of an edit, fetched and read once before it is made.

    changed_id: of the document whose place the only one takes.

    The constructor raises InvalidRequest, Unreadable, DocumentMissing.
    """

    def __init__(self, given: Sequence[DocumentInput], changed_id: str | None = None) -> None:
        checked(given)
        if changed_id is not None:
            place_of(changed_id, current_view())  # before anything is fetched or read
        self._changed_id, self._given = changed_id, fetching.fetched(given)
        self._own: list[LivingDocument | None] | None = None
        self._taken: list[ReadDocument] = []
        self.above(current_view())

    def above(self, view: CorpusView) -> list[ReadDocument]:
        """The documents that the edit would write above a state: what is not given is as that state has it.

        They are read again only where others have changed what they replace, so an edit loses nothing of those that
        came between, and no address is fetched twice. Unreadable, DocumentMissing.
        """
        own = self._replaced(view)
        if own != self._own:
            self._taken, self._own = self._read(own), own
        return self._taken

    def _replaced(self, view: CorpusView) -> list[LivingDocument | None]:
        """The document in whose place each is written; None: it is a new one."""
        if self._changed_id is not None:
            return [view.document(place_of(self._changed_id, view))]
        places = view.with_ids([one.document_id for one in self._given if one.document_id])
        return [view.document(places[one.document_id]) if one.document_id in places else None for one in self._given]

    def _read(self, own: Sequence[LivingDocument | None]) -> list[ReadDocument]:
        pairs = zip(self._given, own, strict=True)
        given = [one if present is None else one.with_own(present) for one, present in pairs]
        there = known_now()
        return [
            replace(one, document=replace(one.document, collection=there.called(one.document.collection)))
            for one in read(given, active().index.corpus, only_one=self._changed_id is not None)
        ]


def _written(
    look: Callable[[CorpusView], Sequence[ReadDocument]], by: User | None, kept: CommitHook | None, began: float
) -> Edited:
    """Write documents that were read since `began`."""
    return _Edit((), look, by, kept, timings_ms={"read": (time.perf_counter() - began) * 1e3}).made()


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
class _Edit:
    """removed: ids to remove. look: the documents to write above a state; refuses what does not fit it.

    above: as in `put`. timings_ms: of what came before.
    """

    removed: Sequence[str]
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
        from realm_core.living.documents import Changes, DocumentRefused
        from realm_core.living.editing import edit as edit_corpus

        changes = Changes(tuple(one.document for one in taken), tuple(self.removed))
        began = time.perf_counter()
        store, embed = store_of(index), embedding_of(model)
        try:
            after = edit_corpus(store, view.state, changes, embed)
        except DocumentRefused as error:
            files = {one.document.id: one.name for one in taken}
            reasons = (named(files.get(one, ""), why) for one, why in error.reasons.items())
            raise Unreadable(*reasons, present=error.present) from None
        published = time.perf_counter()
        edited = self._commit(index, row, view, store.view(after), taken)
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

    def _commit(
        self,
        index: IndexGeneration,
        row: CorpusState | None,
        before: CorpusView,
        after: CorpusView,
        taken: Sequence[ReadDocument],
    ) -> Edited:
        """Make the new state the current one, with all rows of the edit, or raise Overtaken."""
        ids = [*(one.document.id for one in taken), *self.removed]
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
                self._store(edited, index, row, before, after, {one.document.id: one for one in taken})
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
    ) -> None:
        """The rows of an edit that changes something, in `edited`. taken: what is written, by id."""
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
