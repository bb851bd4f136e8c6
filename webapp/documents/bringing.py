"""Brings the edits above the previously deployed index over to the corpus of the active deployment.

A deployment of another index begins with the unchanged base of that index. Edits above the previous index stay there
until a person brings them over (`bring`). A schedule does so before it deploys the index of a later snapshot, or a part
of a corpus that a person wants to answer instead (`carry`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth.models import User
from django.db.models import Max

from realm_core.errors import RealmError
from webapp.documents import lineage, service
from webapp.documents.committing import content_hash
from webapp.documents.inputs import MOST_DOCUMENTS, ReadDocument
from webapp.models import GONE, ChangeKind, CorpusChange, Deployment, Document, DocumentStatus, IndexGeneration
from webapp.serving.living import active, opened
from webapp.text import counted

if TYPE_CHECKING:
    from realm_core.living.documents import LivingDocument
    from realm_core.living.view import CorpusView


@dataclass(frozen=True)
class Waiting:
    """Edits above the earlier `index` that the later corpus does not have. Purges apply to both.

    documents: ids of documents to add or to change in the later corpus, without those that have a twin.
    removed:   ids of documents that were removed, but are still in the later corpus.
    twins:     (id, id of the twin): the twin is a document of the later corpus with the same title and text.
    strangers: (id, title of another document that has this id in the later corpus).
    """

    index: IndexGeneration
    documents: tuple[str, ...]
    removed: tuple[str, ...]
    twins: tuple[tuple[str, str], ...]
    strangers: tuple[tuple[str, str], ...]

    def __len__(self) -> int:
        return len(self.documents) + len(self.removed)


@dataclass(frozen=True)
class Brought:
    """The result of bringing edits over. left_out: a sentence for each document that has a twin, or whose id is taken.

    there: the number of documents whose edit, or a later one, the corpus had already.
    """

    changes: tuple[CorpusChange, ...] = ()
    left_out: tuple[str, ...] = ()
    there: int = 0

    def __len__(self) -> int:
        return len(self.changes)

    def __str__(self) -> str:
        there = f"the edits of {counted(self.there, 'document')} are there already." if self.there else ""
        if self.changes:
            were = "was" if len(self) == 1 else "were"
            return f"{counted(len(self), 'document')} {were} brought over{f'; {there}' if there else '.'}"
        if there:
            return f"Nothing was brought over: {there}"
        return "Nothing was brought over."


_MOST_LOOKED_AT: Final = 50  # deployments, the latest first


class CannotBring(RealmError):
    """A document that was moved to another collection would be back in its former one, or its id is another one's."""


def edited_above(earlier: IndexGeneration, later: IndexGeneration) -> int:
    """The number of documents whose edit above `earlier` is not above `later`. Opens no corpus."""
    return len(_edited(earlier, later))


def _edited(earlier: IndexGeneration, later: IndexGeneration) -> list[Document]:
    """The rows above `earlier` of documents whose edit is not above `later`. Purges are left out: they apply to both.

    Of a document edited above both, the row counts if its edit is the later one and left other content; of one that was
    removed and restored, nothing has changed, unless its removal went over to `later` meanwhile.
    """
    every = Document.objects.exclude(status=DocumentStatus.PURGED).annotate(last_change=Max("changes"))
    here = {row.document_id: row for row in every.filter(index=later)}
    restored = _changed_by(earlier, ChangeKind.RESTORED) - _changed_by(earlier, ChangeKind.ADDED, ChangeKind.CHANGED)

    def waits(row: Any) -> bool:
        other: Any = here.get(row.document_id)
        if other is None:
            return row.status == DocumentStatus.REMOVED or row.document_id not in restored
        return (row.last_change or 0) > (other.last_change or 0) and _content_after(row) != _content_after(other)

    rows = every.filter(index=earlier)
    if (joined := lineage.state_joined(earlier, later)) is not None:  # only edits after the joined state
        later_changes = CorpusChange.objects.filter(document__index=earlier, after__gt=joined)
        rows = rows.filter(pk__in=later_changes.values("document"))
    return [row for row in rows.order_by("pk") if waits(row)]


def _changed_by(index: IndexGeneration, *kinds: ChangeKind) -> set[str]:
    """The ids of the documents above an index with a change of one of these kinds."""
    rows = CorpusChange.objects.filter(document__index=index, kind__in=kinds)
    return set(rows.values_list("document__document_id", flat=True))


def _content_after(row: Document) -> tuple[object, ...] | None:
    """A document's content and metadata after its edit, for comparison; None if it was removed."""
    if row.status == DocumentStatus.REMOVED:
        return None
    return (row.content_hash, row.collection, *_metadata(row))


def _metadata(one: Document | LivingDocument) -> tuple[object, ...]:
    """A document's metadata, without its title and collection."""
    return (one.url, one.licence, one.attribution, one.language, one.date, tuple(one.tags))


def waiting() -> Waiting | None:
    """The edits to bring over from the previously deployed index; None if there are none."""
    index = active().index
    earlier = _earlier(index)
    found = None if earlier is None else _waiting(earlier, index)
    return found if found else None


def _waiting(earlier: IndexGeneration, index: IndexGeneration) -> Waiting:
    """The edits above `earlier` that the corpus above `index` does not have."""
    view = opened(index, index.state_now())
    rows = _edited(earlier, index)
    # A document in the earlier corpus's own collection is in this corpus's own.
    own = {earlier.corpus.name} - {index.corpus.name}
    is_another = earlier.corpus.name != index.corpus.name
    places = view.with_ids([row.document_id for row in rows])
    edited_here = set(Document.objects.filter(index=index).values_list("document_id", flat=True))
    # Within one corpus an id is one document's, unless a person gave it to another before that came with the corpus.
    added = _changed_by(earlier, ChangeKind.ADDED)
    documents: list[Document] = []
    removed: list[str] = []
    strangers: dict[str, str] = {}
    for row in rows:
        here = view.document(places[row.document_id]) if row.document_id in places else None
        may_differ = is_another or row.document_id in added
        is_stranger = may_differ and here is not None and here.id not in edited_here and not _is_same(here, row)
        if row.status == DocumentStatus.REMOVED:
            removed += [row.document_id] if here is not None and not is_stranger else []
        elif here is not None and is_stranger:
            strangers[row.document_id] = here.title
        elif here is None or not _has_edit(here, row, own):
            documents.append(row)
    replaced = {*(row.document_id for row in documents), *removed}
    twins = _twins(view, documents, replaced, in_any=not is_another)
    return Waiting(
        earlier,
        tuple(row.document_id for row in documents if row.document_id not in twins),
        tuple(removed),
        tuple(twins.items()),
        tuple(strangers.items()),
    )


def _is_same(here: LivingDocument, row: Document) -> bool:
    """Whether a document of another corpus that has the id of an edited one is that one: an id may be a mere number."""
    return here.title == row.title or (here.url == row.url and row.url != "")


def _has_edit(here: LivingDocument, row: Document, own: Collection[str]) -> bool:
    """Whether a document already has the content of an edit. own: collections that need not be equal."""
    same = content_hash(here) == row.content_hash and _metadata(here) == _metadata(row)
    return same and row.collection in {*own, here.collection}


def bring(*, by: User | None) -> Brought:
    """Bring the waiting edits over, at most `MOST_DOCUMENTS` documents at a time. Raises the errors of an edit."""
    index = active().index
    earlier = _earlier(index)
    if earlier is None:
        return Brought()
    found = _waiting(earlier, index)
    edited = Document.objects.filter(index=earlier).exclude(status=DocumentStatus.PURGED).count()
    left_out = len(found.twins) + len(found.strangers)
    return replace(_brought(found, by=by), there=edited - len(found) - left_out)


def carry(earlier: IndexGeneration, later: IndexGeneration, *, by: User | str | None) -> Brought:
    """Bring the edits above the deployed index over to `later`, before it is deployed.

    So documents that were removed, or moved to another collection, remain so when `later` is deployed. To an index of
    another corpus come those that were added or changed; removals hold for what is the same document there.
    Raises CannotBring and the errors of an edit: then `later` must not be deployed.
    """
    found = _waiting(earlier, later)
    _refuse_taken(found, later)
    _refuse_exposed(found, later)
    brought = _brought(found, by=by, above=later)
    if earlier.corpus.name == later.corpus.name:
        _remember_removed(earlier, later)
    return brought


def told(earlier: IndexGeneration, later: IndexGeneration) -> str:
    """What `carry` did between two corpora, in sentences; empty: they are of one, or nothing was edited."""
    if earlier.corpus.name == later.corpus.name:
        return ""
    rows = Document.objects.filter(index=earlier)
    number, removed = rows.exclude(status__in=GONE).count(), rows.filter(status=DocumentStatus.REMOVED).count()
    says = []
    if number:
        were, are = ("was", "is") if number == 1 else ("were", "are")
        what = f"{counted(number, 'document')} that {were} added to {earlier.corpus.name}, or changed in it,"
        says.append(f"{what} {are} in {later.corpus.name}, too.")
    if removed:
        were = "was" if removed == 1 else "were"
        what = f"{counted(removed, 'document')} {were} removed from {earlier.corpus.name}"
        says.append(f"{what}: what {later.corpus.name} itself has on the same subject is found.")
    return " ".join(says)


def _refuse_taken(found: Waiting, later: IndexGeneration) -> None:
    """Raise CannotBring if a document would take the place of another one."""
    for document_id, title in found.strangers:
        others = f", and so it is with {counted(len(found.strangers) - 1, 'other')}" if len(found.strangers) > 1 else ""
        raise CannotBring(
            f"The document {document_id} cannot be brought over to {later.generation}: the id is that of “{title}” "
            f"there{others}. Add it under another id and remove this one, or deploy by hand."
        )


def _refuse_exposed(found: Waiting, later: IndexGeneration) -> None:
    """Raise CannotBring if a moved document would stay in its former collection under another id."""
    view = opened(later, later.state_now())
    moved = dict(
        Document.objects.filter(index=found.index, document_id__in=[one for one, _ in found.twins]).values_list(
            "document_id", "collection"
        )
    )
    places = view.with_ids([twin for _, twin in found.twins])
    for document_id, twin in found.twins:
        if view.collection_of(places[twin]) != moved[document_id]:
            raise CannotBring(
                f"The document {document_id} cannot be brought over to {later.generation}: {twin} has its title and "
                "text there, in another collection."
            )


def _remember_removed(earlier: IndexGeneration, later: IndexGeneration) -> None:
    """Record removals above `later` even of documents that it does not have: a later corpus may have them again."""
    known = set(Document.objects.filter(index=later).values_list("document_id", flat=True))
    rows = [row for row in _edited(earlier, later) if row.status == DocumentStatus.REMOVED]
    others = opened(later, later.state_now()).with_ids([row.document_id for row in rows])
    for row in rows:
        if row.document_id not in known and row.document_id not in others:
            row.pk, row.index, row._state.adding = None, later, True
            row.save()


def _brought(found: Waiting, *, by: User | str | None, above: IndexGeneration | None = None) -> Brought:
    view = opened(found.index, found.index.state_now())
    rows = {row.document_id: row for row in Document.objects.filter(index=found.index, document_id__in=found.documents)}
    places = view.with_ids(found.documents)
    changes: list[CorpusChange] = []
    removed = found.removed
    ids = [document_id for document_id in found.documents if document_id in places]
    for start in range(0, max(len(ids), bool(removed)), MOST_DOCUMENTS):
        part = ids[start : start + MOST_DOCUMENTS]
        taken = [_as_read(view.document(places[one]), rows[one]) for one in part]
        changes += service.put(taken, removed, by=by, above=above).changes
        removed = ()
    left_out = [f"{one} is left out: {twin} has its title and text here." for one, twin in found.twins]
    left_out += [f"{one} is left out: the id is that of “{title}” here." for one, title in found.strangers]
    return Brought(tuple(changes), tuple(left_out))


def _as_read(document: LivingDocument, row: Document) -> ReadDocument:
    """A document as it was read when it was edited."""
    return ReadDocument(document, row.format, original=row.original, warnings=tuple(row.warnings))


def _twins(view: CorpusView, rows: Sequence[Document], replaced: Collection[str], *, in_any: bool) -> dict[str, str]:
    """The id of each document that has a twin → the twin's id. replaced: ids that are no twins.

    in_any: a twin may be in another collection. One of another corpus is not: both documents can be there.
    """
    here = {
        (content_hash(one), "" if in_any else one.collection): one.id
        for one in map(view.document, view.titled({row.title for row in rows}))
    }
    twins = ((row.document_id, here.get((row.content_hash, "" if in_any else row.collection))) for row in rows)
    return {document_id: twin for document_id, twin in twins if twin is not None and twin not in replaced}


def _earlier(index: IndexGeneration) -> IndexGeneration | None:
    """The index with edits that was deployed last before this one."""
    for deployment in Deployment.objects.exclude(index=index).select_related("index")[:_MOST_LOOKED_AT]:
        edited = Document.objects.filter(index=deployment.index).exists()
        # Documents of a joined index may have other ids here; edits made since then are joined again.
        if edited and lineage.state_joined(deployment.index, index) is None:
            return deployment.index
    return None
