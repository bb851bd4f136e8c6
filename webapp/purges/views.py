"""Manage › Documents › Purge: what it will do, to be confirmed, and the receipt of what it did."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from webapp.documents.views import shown_document, with_corpus
from webapp.ledger.touched import Touched
from webapp.models import AskedAnswer, DocumentStatus, Purge
from webapp.pages.guards import console_form, console_page, staff_member
from webapp.purges import remaining
from webapp.purges import service as purging
from webapp.purges.remaining import RemovalStage
from webapp.serving.states import EditConflict

_LISTED: Final = 200  # answers of one receipt
_UNCONFIRMED: Final = "Tick the box first: a purge cannot be undone."


@console_form
@with_corpus
def purge_document(request: HttpRequest) -> HttpResponse:
    """Forget a document for good; first the page says what that does."""
    shown = shown_document(request)
    document_id, status = shown.document_id, 200
    if request.method == "POST":
        if request.POST.get("sure") != "yes":
            messages.error(request, _UNCONFIRMED)
            status = 422
        else:
            try:
                purge = purging.purge([document_id], by=staff_member(request))
            except EditConflict as error:
                messages.error(request, str(error))
                status = 409
            else:
                messages.success(request, f"“{shown.title}” is purged. This is the receipt.")
                return redirect("manage-purge", purge.pk)
    context = {
        "shown": shown,
        "purged": shown.status == DocumentStatus.PURGED,
        "summary": Touched(purging.blocks_of([document_id])).worked_out().summary,
    }
    return render(request, "manage/document_purge.html", context, status=status)


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
