"""Editing the documents of the deployed corpus, for page, REST API and command line alike.

read → plan, pack, embed, publish a segment (realm_core.living) → commit the rows → open the new state (committing.py)

A published segment has no effect until the row of its state is the current one, so an edit that dies at any time has
either happened or not. Of two simultaneous edits one wins; the other is repeated on the resulting state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from django.contrib.auth.models import User

from webapp.collections.service import known_now
from webapp.documents import fetching, placing
from webapp.documents.committing import CommitHook, Edit, Edited
from webapp.documents.inputs import DocumentInput, ReadDocument, checked, read
from webapp.documents.versions import Versions, require
from webapp.documents.viewing import DocumentMissing, place_of
from webapp.models import IndexGeneration
from webapp.refusals import StateConflict
from webapp.serving.living import active, current_view
from webapp.serving.states import Overtaken

if TYPE_CHECKING:
    from realm_core.living.documents import LivingDocument
    from realm_core.living.view import CorpusView


class DocumentExists(StateConflict):
    """A document to be added exists already."""

    def __init__(self, document_id: str) -> None:
        super().__init__(f"The corpus has a document {document_id!r} already; change that one.")


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

    Raises DocumentMissing with all that are not there, ChangedMeanwhile, EditConflict; EngineUnavailable if nothing
    is deployed.
    """
    ids = tuple(dict.fromkeys(document_ids))

    def look(view: CorpusView) -> tuple[()]:
        there = view.with_ids(ids)
        if missing := [one for one in ids if one not in there]:
            raise DocumentMissing(*missing)
        for document_id in ids:
            require(view.document(there[document_id]), versions)
        return ()

    return Edit(ids, look, by, kept).made()


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
    return Edit(removed, lambda view: taken, by, above=above).made()


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
    return Edit((), look, by, kept, timings_ms={"read": (time.perf_counter() - began) * 1e3}).made()
