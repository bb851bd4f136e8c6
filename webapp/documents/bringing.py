"""Documents that were edited above an index which answered before: brought over to the corpus that answers now.

A deployment of another index begins with the unchanged base of that index. What was added, changed or removed above the
index that answered before stays there, until it is brought over by one edit or another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.contrib.auth.models import User

from webapp.documents import service
from webapp.documents.reading import MOST_DOCUMENTS, Taken
from webapp.documents.service import Edited
from webapp.documents.viewing import active, opened
from webapp.models import GONE, Deployment, Document, IndexGeneration


@dataclass(frozen=True)
class Waiting:
    """Edits above `index` that the corpus which answers now does not have.

    documents: ids of those that were added or changed. removed: ids of those that were taken out and are still here.
    """

    index: IndexGeneration
    documents: tuple[str, ...]
    removed: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.documents) + len(self.removed)


_MOST_LOOKED_AT: Final = 50  # deployments, the latest first


def edited_above(earlier: IndexGeneration, later: IndexGeneration) -> int:
    """How many documents were edited above `earlier` and not above `later`. Opens no corpus."""
    here = Document.objects.filter(index=later).values("document_id")
    return Document.objects.filter(index=earlier).exclude(document_id__in=here).count()


def waiting() -> Waiting | None:
    """What there is to bring over from the index that answered last before the present one; None: nothing."""
    index = active().index
    earlier = _earlier(index)
    if earlier is None:
        return None
    view = opened(index, index.current_state)
    here = Document.objects.filter(index=index).values("document_id")
    rows = list(Document.objects.filter(index=earlier).exclude(document_id__in=here).order_by("pk"))
    places = view.with_ids([row.document_id for row in rows])
    documents, removed = [], []
    for row in rows:
        place = places.get(row.document_id)
        if row.status in GONE:
            removed += [row.document_id] if place is not None else []
        elif place is None or service.content_hash(view.document(place)) != row.content_hash:
            documents.append(row.document_id)
    found = Waiting(earlier, tuple(documents), tuple(removed))
    return found if len(found) else None


def bring(*, by: User | None) -> list[Edited]:
    """Bring over what waits, in edits of at most `MOST_DOCUMENTS` documents. Errors as `service.add`."""
    found = waiting()
    if found is None:
        return []
    view = opened(found.index, found.index.current_state)
    formats = dict(
        Document.objects.filter(index=found.index, document_id__in=found.documents).values_list("document_id", "format")
    )
    places = view.with_ids(found.documents)
    edits = []
    removed = found.removed
    ids = [document_id for document_id in found.documents if document_id in places]
    for start in range(0, max(1, len(ids)), MOST_DOCUMENTS):
        part = ids[start : start + MOST_DOCUMENTS]
        taken = [Taken(view.document(places[one]), formats[one]) for one in part]
        edits.append(service.put(taken, removed, by=by))
        removed = ()
    return edits


def _earlier(index: IndexGeneration) -> IndexGeneration | None:
    """The index that answered last before this one and above which documents were edited."""
    for deployment in Deployment.objects.exclude(index=index).select_related("index")[:_MOST_LOOKED_AT]:
        if Document.objects.filter(index=deployment.index).exists():
            return deployment.index
    return None
