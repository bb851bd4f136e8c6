"""Documents that were edited above an index which answered before: brought over to the corpus that answers now.

A deployment of another index begins with the unchanged base of that index. What was added, changed or removed above the
index that answered before stays there, until it is brought over by one edit or another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.contrib.auth.models import User
from django.db.models import QuerySet

from webapp.documents import service
from webapp.documents.reading import MOST_DOCUMENTS, Taken
from webapp.documents.viewing import active, opened
from webapp.models import CorpusChange, Deployment, Document, DocumentStatus, IndexGeneration

if TYPE_CHECKING:
    from realm_core.living.view import CorpusView


@dataclass(frozen=True)
class Waiting:
    """Edits above `index` that the corpus which answers now does not have.

    documents: ids of those that were added or changed. removed: of those that were, and are still here. What was purged
    is no edit that waits: it is purged here, too.
    twins: of those that were added or changed, but whose title and text another document has here, and of that one.
    """

    index: IndexGeneration
    documents: tuple[str, ...]
    removed: tuple[str, ...]
    twins: tuple[tuple[str, str], ...]

    def __len__(self) -> int:
        return len(self.documents) + len(self.removed)


@dataclass(frozen=True)
class Brought:
    """What was brought over. left_out: a sentence for each document."""

    changes: tuple[CorpusChange, ...] = ()
    left_out: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.changes)


_MOST_LOOKED_AT: Final = 50  # deployments, the latest first


def edited_above(earlier: IndexGeneration, later: IndexGeneration) -> int:
    """How many documents were edited above `earlier` and not above `later`. Opens no corpus."""
    return _edited(earlier, later).count()


def _edited(earlier: IndexGeneration, later: IndexGeneration) -> QuerySet[Document]:
    """The rows of documents edited above `earlier` and not above `later`. One purged above both was purged at once."""
    every = Document.objects.exclude(status=DocumentStatus.PURGED)
    here = every.filter(index=later).values("document_id")
    return every.filter(index=earlier).exclude(document_id__in=here)


def waiting() -> Waiting | None:
    """What there is to bring over from the index that answered last before the present one; None: nothing."""
    index = active().index
    earlier = _earlier(index)
    if earlier is None:
        return None
    view = opened(index, index.current_state)
    rows = list(_edited(earlier, index).order_by("pk"))
    places = view.with_ids([row.document_id for row in rows])
    documents: list[Document] = []
    removed: list[str] = []
    for row in rows:
        place = places.get(row.document_id)
        if row.status == DocumentStatus.REMOVED:
            removed += [row.document_id] if place is not None else []
        elif (
            place is None
            or service.content_hash(view.document(place)) != row.content_hash
            or row.collection not in (earlier.corpus.name, view.collection_of(place))
        ):
            documents.append(row)
    replaced = {*(row.document_id for row in documents), *removed}
    twins = _twins(view, documents, replaced)
    found = Waiting(
        earlier,
        tuple(row.document_id for row in documents if row.document_id not in twins),
        tuple(removed),
        tuple(twins.items()),
    )
    return found if len(found) else None


def bring(*, by: User | None) -> Brought:
    """Bring over what waits by edits of at most `MOST_DOCUMENTS` documents. Errors as these have."""
    found = waiting()
    if found is None:
        return Brought()
    view = opened(found.index, found.index.current_state)
    formats = dict(
        Document.objects.filter(index=found.index, document_id__in=found.documents).values_list("document_id", "format")
    )
    places = view.with_ids(found.documents)
    changes: list[CorpusChange] = []
    removed = found.removed
    ids = [document_id for document_id in found.documents if document_id in places]
    for start in range(0, max(len(ids), bool(removed)), MOST_DOCUMENTS):
        part = ids[start : start + MOST_DOCUMENTS]
        taken = [Taken(view.document(places[one]), formats[one]) for one in part]
        changes += service.put(taken, removed, by=by).changes
        removed = ()
    left_out = tuple(f"{one} is left out: {twin} has its title and text here." for one, twin in found.twins)
    return Brought(tuple(changes), left_out)


def _twins(view: CorpusView, rows: Sequence[Document], replaced: Collection[str]) -> dict[str, str]:
    """Of the documents whose title and text another one has here: their ids, and that one's. replaced: do not count."""
    here = {service.content_hash(one): one.id for one in map(view.document, view.titled({row.title for row in rows}))}
    twins = ((row.document_id, here.get(row.content_hash)) for row in rows)
    return {document_id: twin for document_id, twin in twins if twin is not None and twin not in replaced}


def _earlier(index: IndexGeneration) -> IndexGeneration | None:
    """The index that answered last before this one and above which documents were edited."""
    for deployment in Deployment.objects.exclude(index=index).select_related("index")[:_MOST_LOOKED_AT]:
        if Document.objects.filter(index=deployment.index).exists():
            return deployment.index
    return None
