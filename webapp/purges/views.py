"""Manage › Documents › Purge: what it will do, to be confirmed, and the receipt of what it did."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from webapp.documents import viewing
from webapp.documents.viewing import DocumentMissing
from webapp.documents.views import with_corpus
from webapp.ledger.touched import Touched
from webapp.models import AskedAnswer, DocumentStatus, IndexGeneration, Purge
from webapp.pages.guards import console_form, console_page, staff_member
from webapp.purges import remaining
from webapp.purges import service as purging
from webapp.purges.remaining import RemovalStage
from webapp.serving.living import fetch_files
from webapp.serving.states import EditConflict

_LISTED: Final = 200  # answers of one receipt
_UNCONFIRMED: Final = "Tick the box first: a purge cannot be undone."


@console_form
@with_corpus
def purge_document(request: HttpRequest) -> HttpResponse:
    """Forget a document for good; first the page says what that does. index: of a corpus that does not answer now."""
    index = _index(request)
    try:
        shown = viewing.show(request.GET.get("id", ""), index=index)
    except DocumentMissing as error:
        if index is None:
            raise
        messages.error(request, str(error))
        return redirect("manage-index", index.pk)
    document_id, status = shown.document_id, 200
    if request.method == "POST":
        if request.POST.get("sure") != "yes":
            messages.error(request, _UNCONFIRMED)
            status = 422
        else:
            try:
                purge = purging.purge([document_id], by=staff_member(request), index=index)
            except EditConflict as error:
                messages.error(request, str(error))
                status = 409
            else:
                messages.success(request, f"“{shown.title}” is purged. This is the receipt.")
                return redirect("manage-purge", purge.pk)
    context = {
        "shown": shown,
        "index": index,
        "purged": shown.status == DocumentStatus.PURGED,
        "summary": Touched(purging.blocks_of([document_id], index)).worked_out().summary,
    }
    return render(request, "manage/document_purge.html", context, status=status)


def _index(request: HttpRequest) -> IndexGeneration | None:
    """The index that the address names, or what it was folded into; None: the one that answers."""
    given = request.GET.get("index", "")
    if not given:
        return None
    if not given.isdecimal() or len(given) > 9:
        raise Http404
    index = get_object_or_404(IndexGeneration, pk=int(given)).latest
    if index.removed_at is not None:
        raise Http404
    fetch_files(index)
    return index


@console_page
def purge_page(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The receipt of a purge, and how far what still holds the documents is from being no more."""
    purge = get_object_or_404(Purge.objects.select_related("by", "index__corpus"), pk=pk)
    folders = remaining.held_folders(purge)
    context = {
        "purge": purge,
        "answers": AskedAnswer.objects.filter(pk__in=purge.answer_ids[:_LISTED]).order_by("-created_at"),
        "unlisted": max(0, len(purge.answer_ids) - _LISTED),
        "folders": folders,
        "held": [one for one in folders if one.stage != RemovalStage.REMOVED],
        "foldable": any(one.stage == RemovalStage.ANSWERS for one in folders),
        "fold": remaining.fold_of(folders),
    }
    return render(request, "manage/purge.html", context)
