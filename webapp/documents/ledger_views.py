"""Manage › Documents › Changes: the ledger of all edits, and one change with the stored answers affected by it."""

from __future__ import annotations

from typing import Final

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.documents import ledger, touched
from webapp.models import ChangeKind, CorpusChange
from webapp.pages.guards import staff_only

_PAGE_SIZE: Final = 25


@staff_only
@never_cache
@require_GET
def change_list(request: HttpRequest) -> HttpResponse:
    """All changes, the latest first."""
    changes = CorpusChange.objects.select_related("document", "by", "after")
    kind = request.GET.get("kind", "")
    if kind in ChangeKind.values:
        changes = changes.filter(kind=kind)
    page = Paginator(changes, _PAGE_SIZE).get_page(request.GET.get("page"))
    context = {"page": page, "rows": ledger.with_summaries(page), "kind": kind, "kinds": ChangeKind.choices}
    return render(request, "manage/document_changes.html", context)


@staff_only
@never_cache
@require_GET
def change_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One change, and the stored answers that had read what it removed."""
    change = get_object_or_404(CorpusChange.objects.select_related("document", "by", "before", "after"), pk=pk)
    page = Paginator(ledger.answers(change), _PAGE_SIZE).get_page(request.GET.get("page"))
    rows = touched.recomputed(page, change.blocks_gone)
    return render(
        request,
        "manage/document_change.html",
        {"change": change, "page": page, "rows": rows, "summary": ledger.summary(change)},
    )
