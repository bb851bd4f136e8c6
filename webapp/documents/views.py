"""Manage › Documents: the list, and one document."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial, wraps
from typing import Final

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render

from realm_core.errors import RealmError
from webapp.documents import bringing, folding, listing, restoring, sweeping, viewing
from webapp.documents.viewing import DocumentMissing, ShownDocument
from webapp.ledger import service as ledger
from webapp.ledger.touched import AT_A_GLANCE, Touched
from webapp.models import GONE, CorpusChange, DocumentStatus
from webapp.pages.guards import View, console_action, console_page, staff_member
from webapp.pages.paging import numbered_page
from webapp.refusals import REFUSALS
from webapp.serving.living import active

_PAGE_SIZE: Final = 50
_TEXT_SHOWN: Final = 20_000  # characters, unless the whole text is requested
_SHOWS: Final = {
    "": "All",
    DocumentStatus.CHANGED.value: "Changed",
    DocumentStatus.REMOVED.value: "Removed",
    DocumentStatus.PURGED.value: "Purged",
}


def with_corpus(view: View) -> View:
    """Return 404 if the document does not exist, and 503 with the reason if the corpus cannot be read.

    The ledger names documents of every corpus that has answered; one that is not in the active deployment's is looked
    for in the list of that, which offers to bring it over.
    """

    @wraps(view)
    def guarded(request: HttpRequest) -> HttpResponseBase:
        try:
            return view(request)
        except DocumentMissing:
            elsewhere = viewing.elsewhere(request.GET.get("id", ""))
            if elsewhere is None:
                raise Http404 from None
            messages.warning(
                request,
                f"“{elsewhere.title}” is not in the active deployment’s corpus: it was edited while "
                f"{elsewhere.index.generation} answered.",
            )
            return redirect("manage-documents")
        except RealmError as reason:
            return render(request, "manage/documents.html", {"reason": reason}, status=503)

    return guarded


@console_page
@with_corpus
def document_list(request: HttpRequest) -> HttpResponse:
    """The documents of the deployed corpus, edited ones first."""
    title, status = request.GET.get("title", "").strip(), request.GET.get("show", "")
    status = status if status in _SHOWS else ""
    number = request.GET.get("page", "1")
    wanted = min(int(number), 10**9) if number.isascii() and number.isdecimal() and int(number) else 1
    collection = request.GET.get("collection", "")
    added_since, added_before = (_day(request.GET.get(name, "")) for name in ("added_since", "added_before"))
    query = listing.DocumentQuery(title, status, collection, added_since=added_since, added_before=added_before)
    listed = partial(listing.listed, query, count=_PAGE_SIZE)
    found = listed(start=(wanted - 1) * _PAGE_SIZE)
    index = active().index
    page = Paginator(range(found.total), _PAGE_SIZE).get_page(wanted)
    if page.number != wanted:
        found = listed(start=(page.number - 1) * _PAGE_SIZE)
    context = {
        "page": page,
        "documents": found.documents,
        "title": title,
        "show": status,
        "collection": collection,
        "added_since": added_since,
        "added_before": added_before,
        "tabs": _SHOWS.items(),
        "waiting": bringing.waiting(),
        "edits": folding.edits(index),
        "fold": folding.under_way(index),
        "earlier": sweeping.earlier(index),
    }
    return render(request, "manage/documents.html", context)


def _day(text: str) -> datetime | None:
    """The beginning (UTC) of a day from a form; None: none is given."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None


@console_action
def bring_documents(request: HttpRequest) -> HttpResponse:
    """Bring over what was edited above the index that answered before."""
    try:
        brought = bringing.bring(by=staff_member(request))
    except REFUSALS as error:
        messages.error(request, str(error))
    else:
        (messages.success if brought else messages.info)(request, str(brought))
        for sentence in brought.left_out:
            messages.warning(request, sentence)
    return redirect("manage-documents")


@console_action
def fold_documents(request: HttpRequest) -> HttpResponse:
    """Start the job that folds what was edited into a new index."""
    try:
        job = folding.start(by=staff_member(request))
    except REFUSALS as error:
        messages.error(request, str(error))
        return redirect("manage-documents")
    return redirect("manage-job", job.pk)


@console_page
@with_corpus
def document_page(request: HttpRequest) -> HttpResponse:
    """One document: its text, its blocks, its history, and the kept answers that read it."""
    shown = shown_document(request)
    whole = request.GET.get("text") == "all"
    row = shown.row
    changes = row.changes.select_related("by", "document") if row else CorpusChange.objects.none()
    context = {
        "shown": shown,
        "gone": shown.status in GONE,
        "restorable": row is not None and restoring.can_be_restored(row),
        "text": shown.text if whole else shown.text[:_TEXT_SHOWN],
        "more": not whole and len(shown.text) > _TEXT_SHOWN,
        "page": numbered_page(request, shown.passages, _PAGE_SIZE),
        "summary": Touched([block.block_id for block in shown.passages]).worked_out(AT_A_GLANCE).summary,
        "history": ledger.with_summaries(changes[:_PAGE_SIZE]),
    }
    return render(request, "manage/document.html", context)


def shown_document(request: HttpRequest) -> ShownDocument:
    """The document that the address names; DocumentMissing."""
    return viewing.show(request.GET.get("id", ""))
