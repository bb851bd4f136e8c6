"""The console's first page: how the whole stands."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.operations.overview import overview
from webapp.pages.guards import staff_only


@staff_only
@never_cache
@require_GET
def overview_page(request: HttpRequest) -> HttpResponse:
    """What answers, what works, what is asked."""
    return render(request, "manage/overview.html", {"overview": overview()})


@staff_only
@never_cache
@require_GET
def overview_status(request: HttpRequest) -> HttpResponse:
    """The same without its frame, for polling."""
    return render(request, "manage/_overview.html", {"overview": overview()})
