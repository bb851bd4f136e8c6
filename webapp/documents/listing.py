"""Lists of documents: a page by its number, for people, and page after page, for programs, while others edit."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from django.db.models import Min, QuerySet

from webapp.documents.viewing import DocumentEntry, of_base, of_row
from webapp.models import GONE, ChangeKind, CorpusChange, Document, DocumentStatus, IndexGeneration
from webapp.serving.living import active, indexes_beside, opened

if TYPE_CHECKING:
    from realm_core.living.view import CorpusView


@dataclass(frozen=True)
class DocumentQuery:
    """A filter of the documents.

    title: a part of it, in whatever case. status: a `DocumentStatus`; empty: all that are there. collection: of this
    one only. hidden: collections of which nothing is listed. added_since, added_before: only documents that an edit
    added, at or after the one time and before the other.
    """

    title: str = ""
    status: str = ""
    collection: str = ""
    hidden: frozenset[str] = frozenset()
    added_since: datetime | None = None
    added_before: datetime | None = None

    @property
    def only_edited(self) -> bool:
        """Whether no document matches that came with the corpus and was never edited."""
        by_time = self.added_since is not None or self.added_before is not None
        return by_time or self.status in (DocumentStatus.CHANGED, *GONE)

    def edited(self, index: IndexGeneration) -> QuerySet[Document]:
        """The rows of the matching documents that edits touched."""
        rows = Document.objects.filter(index=index).exclude(collection__in=self.hidden)
        rows = rows.filter(status=self.status) if self.status else rows.exclude(status__in=GONE)
        if self.collection:
            rows = rows.filter(collection=self.collection)
        if (added := self._added(index)) is not None:
            rows = rows.filter(document_id__in=added)
        return rows.filter(title__icontains=self.title) if self.title else rows

    def unedited(self, index: IndexGeneration, view: CorpusView) -> list[int]:
        """The article rows of the matching documents that no edit touched."""
        from realm_core.living.documents import Filter

        if self.only_edited:
            return []
        edited = list(Document.objects.filter(index=index).values_list("document_id", flat=True))
        collections = frozenset({self.collection}) if self.collection else None
        return view.found(self.title, edited, Filter(collections=collections, hidden_collections=self.hidden))

    def _added(self, index: IndexGeneration) -> QuerySet[CorpusChange, str] | None:
        """The ids of the documents that were added in the period; None: none is given.

        The first time counts, above whichever index of the corpus: bringing documents over adds them once more.
        """
        if self.added_since is None and self.added_before is None:
            return None
        indexes = [index, *indexes_beside(index)]
        added = CorpusChange.objects.filter(kind=ChangeKind.ADDED, document__index__in=indexes).order_by()
        firsts = added.values("document__document_id").annotate(first=Min("at"))
        if self.added_since is not None:
            firsts = firsts.filter(first__gte=self.added_since)
        if self.added_before is not None:
            firsts = firsts.filter(first__lt=self.added_before)
        return firsts.values_list("document__document_id", flat=True)


EVERY: Final = DocumentQuery()


@dataclass(frozen=True)
class Listing:
    """A page of the list, and the total number of documents."""

    documents: list[DocumentEntry]
    total: int


def listed(query: DocumentQuery = EVERY, *, start: int = 0, count: int = 50) -> Listing:
    """A page of the documents, those that edits touched first, the latest of them before others."""
    index = active().index
    rows = query.edited(index)
    number = rows.count()
    documents = [of_row(row) for row in rows.order_by("-changed_at", "-pk")[start : start + count]]
    if query.only_edited:
        return Listing(documents, number)  # without opening the corpus
    view = opened(index, index.state_now())
    unedited = query.unedited(index, view)
    first = max(0, start - number)
    documents += _described(view, unedited[first : first + count - len(documents)], {})
    return Listing(documents, number + len(unedited))


class PositionLost(Exception):
    """Another index answers since the list was begun."""


@dataclass(frozen=True)
class Position:
    """Where a list goes on. It holds while documents are added, changed and removed.

    index:   whose documents are listed.
    newest:  the last `Document` when the list was begun; what was first edited later is listed where it was before.
    row:     documents whose row is before this one come first, the newest first;
    article: then those of the base from this article row on.
    """

    index: int
    newest: int
    row: int
    article: int = 0


def following(
    query: DocumentQuery, position: Position | None, count: int
) -> tuple[list[DocumentEntry], Position | None]:
    """A page of the documents, and where the following one begins; None: this is the last.

    Each that is there from the first page to the last is listed once, whatever is edited meanwhile, because neither the
    row of a document nor its place in the base ever changes. PositionLost where the base itself is another one.
    """
    index = active().index
    if position is None:
        newest = Document.objects.filter(index=index).order_by("-pk").values_list("pk", flat=True).first() or 0
        position = Position(index.pk, newest, newest + 1)
    elif position.index != index.pk:
        raise PositionLost
    rows = list(query.edited(index).filter(pk__lt=position.row).order_by("-pk")[: count + 1])
    documents = [of_row(row) for row in rows[:count]]
    if len(rows) > count:
        return documents, replace(position, row=rows[count - 1].pk)
    view = opened(index, index.state_now())
    unedited = query.unedited(index, view)
    # Read last, so that what is edited at this moment is found here if it is not among the unedited any more.
    later = {row.document_id: row for row in query.edited(index).filter(pk__gt=position.newest)}
    edited = {article: later[document_id] for document_id, article in view.in_base(later).items()}
    articles = sorted({*unedited, *edited})
    first = bisect_left(articles, position.article)
    end = first + count - len(documents)
    documents += _described(view, articles[first:end], edited)
    return documents, replace(position, row=0, article=articles[end]) if end < len(articles) else None


def _described(view: CorpusView, articles: list[int], edited: dict[int, Document]) -> list[DocumentEntry]:
    """The documents at some article rows. edited: the rows of those that were edited."""
    unedited = view.described([article for article in articles if article not in edited])
    found = {article: of_row(row) for article, row in edited.items()} | {one.row: of_base(one) for one in unedited}
    return [found[article] for article in articles]
