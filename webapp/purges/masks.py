"""Purged documents stay purged: every index is masked before it is deployed and before a job reads it, however it was
built, and a job is given no snapshot that holds one.

A document with the id of a purged one counts as that document, until someone adds it again. The mask is an edit: a
tombstone above the index, so questions, lists, pages and jobs are without it from the first moment on. A snapshot has
no edits, so what reads one as it is has to take another one.

A joined corpus has documents of others, some under other ids (`webapp/documents/lineage.py`): their blocks tell which
were purged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max, QuerySet

from realm_core.object_store import get_folder
from webapp.documents import lineage
from webapp.models import (
    BASE_FORMAT,
    AuditEntry,
    ChangeKind,
    CorpusChange,
    CorpusSnapshot,
    CorpusState,
    Document,
    GoneBlock,
    IndexGeneration,
    ModelVersion,
)
from webapp.purges.recording import emptied, record_purged
from webapp.serving.embedding import embedding_of
from webapp.serving.living import fetch_files, indexes_beside, indexes_of, opened, store_of
from webapp.serving.states import advanced, repeated
from webapp.storage.places import resolve

if TYPE_CHECKING:
    from realm_core.living.view import CorpusView

_PUT: Final = (ChangeKind.ADDED, ChangeKind.CHANGED)


@dataclass(frozen=True)
class UnmaskedPurges:
    """Documents that were purged from a corpus and are still in the current state above one of its indexes.

    places: their article rows, by id. again: those that were added again above another index, or came with this corpus
    and were purged from another. They are masked in this index alone: its ledger has no purge of them, and nothing else
    of them is removed.
    """

    row: CorpusState | None
    view: CorpusView
    places: dict[str, int]
    again: frozenset[str]


def unmasked_purges(index: IndexGeneration) -> UnmaskedPurges | None:
    """The purged documents that an index still has; None: none. EngineUnavailable if its files cannot be read."""
    purged, elsewhere = purged_ids(index), _purged_elsewhere(index)
    if not purged and not elsewhere:
        return None
    row = index.state_now()
    fetch_files(index)
    view = opened(index, row)
    places = view.with_ids(purged)
    put_anywhere = _last(_changes_beside(index).filter(kind__in=_PUT, document__document_id__in=places))
    again = frozenset(one for one in places if put_anywhere.get(one, 0) > purged[one])
    held = {one: place for one, place in _holding(index, view, elsewhere).items() if one not in places}
    # One with a row was brought over, or put here with the same text: its title and tags are here, too.
    rows = Document.objects.filter(index=index, document_id__in=held).values_list("document_id", flat=True)
    return UnmaskedPurges(row, view, places | held, again | (held.keys() - set(rows))) if places or held else None


def purged_ids(index: IndexGeneration) -> dict[str, int]:
    """Ids of documents that were purged from the corpus of an index, and not added again above it: with the last purge.

    Opens no corpus.
    """
    changes = _changes_beside(index)
    purged = _last(changes.filter(kind=ChangeKind.PURGED))
    put_here = _last(changes.filter(kind__in=_PUT, document__index=index)) if purged else {}
    return {one: last for one, last in purged.items() if put_here.get(one, 0) < last}


def purged_in(corpus: CorpusSnapshot) -> int:
    """How many documents that were purged a snapshot holds, whatever is above it. RealmError if it cannot be read."""
    from realm_core.corpus.store import Snapshot  # loads pyarrow

    indexes = indexes_of(corpus)
    if not indexes:  # so no document of a corpus of this name was ever edited
        return 0
    changes = CorpusChange.objects.filter(document__index__in=indexes).order_by()
    put = _last(changes.filter(kind__in=_PUT))
    ids = {one for one, last in _last(changes.filter(kind=ChangeKind.PURGED)).items() if put.get(one, 0) < last}
    purges = changes.filter(kind=ChangeKind.PURGED).values_list("blocks_gone", flat=True)
    blocks = {block for gone in purges for block in gone} | _purged_elsewhere(indexes[0]).keys()
    if not ids and not blocks:
        return 0
    snapshot = Snapshot.open(get_folder(resolve(corpus.path)))
    purged = GoneBlock.purged([block for block in blocks if snapshot.row_of(block) is not None])
    owners = {block.article_row for block_id in purged for block in snapshot.blocks_with(block_id)}
    return len(owners.union(snapshot.articles_with(ids)))


def _purged_elsewhere(index: IndexGeneration) -> dict[str, int]:
    """The blocks purged from corpora that this one was joined of, or that were joined of it, with the change."""
    purges = CorpusChange.objects.filter(document__index__in=lineage.related(index), kind=ChangeKind.PURGED)
    return {block: pk for pk, gone in purges.order_by("pk").values_list("pk", "blocks_gone") for block in gone}


def _holding(index: IndexGeneration, view: CorpusView, blocks: dict[str, int]) -> dict[str, int]:
    """The documents that have purged blocks, without those that were added above this index since: rows by id."""
    found: dict[str, tuple[int, int]] = {}
    for block_id, purge in blocks.items():
        for block in view.blocks_with(block_id)[:1]:
            place = block.article_row
            found[view.article(place).id] = place, purge
    changes = _changes_beside(index).filter(document__index=index, document__document_id__in=found)
    put_here = _last(changes.filter(kind__in=_PUT))
    return {one: place for one, (place, purge) in found.items() if put_here.get(one, 0) < purge}


def _changes_beside(index: IndexGeneration) -> QuerySet[CorpusChange]:
    return CorpusChange.objects.filter(document__index__in=[index, *indexes_beside(index)]).order_by()


def _last(changes: QuerySet[CorpusChange]) -> dict[str, int]:
    """The last of these changes to each document, by its id."""
    return dict(changes.values_list("document__document_id").annotate(Max("pk")))


def mask_purged(index: IndexGeneration, *, by: User | str | None) -> int:
    """Mask what an index still has of what was purged; how many documents that were. EditConflict."""
    return repeated(partial(_masked, by), index)


def _masked(by: User | str | None, index: IndexGeneration, model: ModelVersion, _row: CorpusState | None) -> int:
    from realm_core.living.documents import Changes
    from realm_core.living.editing import edit

    found = unmasked_purges(index)
    if found is None:
        return 0
    store = store_of(index)
    after = edit(store, found.view.state, Changes(removed=tuple(found.places)), embedding_of(model))
    _commit(index, found, store.view(after), by)
    return len(found.places)


def _commit(index: IndexGeneration, found: UnmaskedPurges, after: CorpusView, by: User | str | None) -> None:
    person = by if isinstance(by, User) else None
    with transaction.atomic():
        was, now = advanced(index, found.row, found.view.state, after.state, person)
        changes = []
        for document_id in sorted(found.places.keys() - found.again):
            place = found.places[document_id]
            document = Document.objects.filter(index=index, document_id=document_id).first()
            if document is None:
                collection = found.view.collection_of(place)
                document = Document(index=index, document_id=document_id, format=BASE_FORMAT, collection=collection)
            blocks = found.view.blocks_of_article(place)
            gone = [one.block_id for one in blocks if not after.rows_with(one.block_id)]
            changes.append(emptied(document, was, now, gone, person))
        record_purged(changes)
        AuditEntry.record("document.purge", index, by=by, documents=list(found.places), index=index.pk)
