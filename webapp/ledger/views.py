"""Manage › Documents › Changes: the ledger of all edits, and one change with the kept answers affected by it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from webapp.access import limits
from webapp.access.limits import TooManyQuestions
from webapp.asking.places import batch_place
from webapp.ledger import service as ledger
from webapp.ledger.touched import Touched
from webapp.models import AskedAnswer, ChangeKind, CorpusChange
from webapp.pages.guards import console_action, console_page, staff_member
from webapp.pages.paging import numbered_page
from webapp.serving.engine import EngineUnavailable
from webapp.text import counted


@console_page
def change_list(request: HttpRequest) -> HttpResponse:
    """All changes, the latest first."""
    changes = CorpusChange.objects.select_related("document", "by", "after")
    kind = request.GET.get("kind", "")
    if kind in ChangeKind.values:
        changes = changes.filter(kind=kind)
    page = numbered_page(request, changes)
    context = {"page": page, "rows": ledger.with_summaries(page), "kind": kind, "kinds": ChangeKind.choices}
    return render(request, "manage/document_changes.html", context)


@console_page
def change_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One change, and the kept answers that had read what it removed; with `differing`, those that change."""
    change = get_object_or_404(CorpusChange.objects.select_related("document", "by", "before", "after"), pk=pk)
    return render(
        request,
        "manage/document_change.html",
        {
            "change": change,
            **shown_touched(request, ledger.touched_by(change)),
            "receipt": ledger.receipt(change),
            "again": ledger.asked_again(change),
            "most_again": ledger.MOST_AGAIN,
        },
    )


def shown_touched(request: HttpRequest, touched: Touched) -> dict[str, Any]:
    """The context of `manage/_touched.html` and of its summary. `?differing=true`: only the answers that change."""
    worked_out = touched.worked_out()
    differing = request.GET.get("differing") == "true"
    page = numbered_page(request, worked_out.differing if differing else touched.rows)
    return {
        "page": page,
        "rows": touched.recomputed(page),
        "summary": worked_out.summary,
        "differing": differing,
    }


@console_action
def ask_again(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask the questions of the touched answers again, as many at once as the limits allow."""
    change = get_object_or_404(CorpusChange, pk=pk)
    if number := ledger.waiting(change):
        try:
            granted = limits.count_questions(request, number)
            with batch_place():
                results = list(ledger.ask_again(change, granted, by=staff_member(request)))
        except (TooManyQuestions, EngineUnavailable) as error:
            messages.error(request, str(error))
        else:
            _say(request, results)
    return redirect("manage-document-change-page", pk)


def _say(request: HttpRequest, results: list[AskedAnswer | Exception]) -> None:
    failed = [one for one in results if isinstance(one, Exception)]
    number = len(results) - len(failed)
    if number:
        messages.success(request, f"{counted(number, 'question')} {'was' if number == 1 else 'were'} asked again.")
    if failed:
        messages.error(request, f"{len(failed):,} could not be asked again. {failed[0]}")
