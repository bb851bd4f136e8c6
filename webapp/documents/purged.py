"""What was purged stays purged: an index that is deployed is masked first, whenever and of whatever it was built.

A document with the id of a purged one counts as that document, until someone adds it again. The mask is an edit: a
tombstone above the index, so questions, lists and pages are without it from the first moment on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Max

from realm_core.errors import RealmError
from webapp.documents.purging import Overtaken, advanced, cut, empty
from webapp.documents.reading import BASE_FORMAT
from webapp.documents.service import EditConflict
from webapp.documents.viewing import opened
from webapp.models import AuditEntry, ChangeKind, CorpusChange, CorpusState, Document, GoneBlock, IndexGeneration
from webapp.serving.embedding import embedding_of
from webapp.serving.living import indexes_beside, store_of

if TYPE_CHECKING:
    from realm_core.living.view import CorpusView

_ATTEMPTS: Final = 5


@dataclass(frozen=True)
class UnmaskedPurges:
    """Documents that were purged from a corpus and are still in the current state above one of its indexes.

    places: their article rows, by id. again: those that were added again above another index. They are masked here, and
    are otherwise not purged any more.
    """

    row: CorpusState | None
    view: CorpusView
    places: dict[str, int]
    again: frozenset[str]


def left(index: IndexGeneration) -> UnmaskedPurges | None:
    """What an index still has of what was purged; None: nothing. EngineUnavailable if its files cannot be read."""
    beside = [index, *indexes_beside(index)]
    changes = CorpusChange.objects.filter(document__index__in=beside).order_by().values_list("document__document_id")
    purged = dict(changes.filter(kind=ChangeKind.PURGED).annotate(Max("pk")))
    if not purged:
        return None
    row = _current(index)
    view = opened(index, row)
    there = view.with_ids(purged)
    put = changes.filter(kind__in=(ChangeKind.ADDED, ChangeKind.CHANGED), document__document_id__in=there)
    put_here = dict(put.filter(document__index=index).annotate(Max("pk")))
    put_anywhere = dict(put.annotate(Max("pk")))
    places = {one: place for one, place in there.items() if put_here.get(one, 0) < purged[one]}
    again = frozenset(one for one in places if put_anywhere.get(one, 0) > purged[one])
    return UnmaskedPurges(row, view, places, again) if places else None


def hold(index: IndexGeneration, *, by: User | str | None) -> int:
    """Mask what an index still has of what was purged; how many documents that were. EditConflict."""
    for _ in range(_ATTEMPTS):
        before = _current(index)
        try:
            return _masked(index, by)
        except (Overtaken, IntegrityError):
            continue
        except RealmError:  # a purge meanwhile removes the segments of the state that was read
            if _current(index) == before:
                raise
    raise EditConflict


def _current(index: IndexGeneration) -> CorpusState | None:
    return index.states.filter(is_current=True).first()


def _masked(index: IndexGeneration, by: User | str | None) -> int:
    from realm_core.living.documents import Changes
    from realm_core.living.editing import edit

    found = left(index)
    if found is None:
        return 0
    store = store_of(index)
    after = edit(store, found.view.state, Changes(removed=tuple(found.places)), embedding_of(index.model))
    _commit(index, found, store.view(after), by)
    return len(found.places)


def _commit(index: IndexGeneration, found: UnmaskedPurges, after: CorpusView, by: User | str | None) -> None:
    person = by if isinstance(by, User) else None
    with transaction.atomic():
        was, now = advanced(index, found.row, found.view.state, after.state, person)
        changes = []
        for document_id in sorted(
            found.places.keys() - found.again
        ):  # of one that was added again nothing else is purged
            place = found.places[document_id]
            document = Document.objects.filter(index=index, document_id=document_id).first()
            if document is None:
                collection = found.view.collection_of(place)
                document = Document(index=index, document_id=document_id, format=BASE_FORMAT, collection=collection)
            empty(document)
            blocks = found.view.blocks_of_article(place)
            changes.append(
                CorpusChange.objects.create(
                    kind=ChangeKind.PURGED,
                    document=document,
                    before=was,
                    after=now,
                    blocks_gone=[one.block_id for one in blocks if after.row_of(one.block_id) is None],
                    by=person,
                )
            )
        GoneBlock.follow(changes)
        cut({block_id for change in changes for block_id in change.blocks_gone})
        AuditEntry.record("document.purge", index, by=by, documents=list(found.places), index=index.pk)
