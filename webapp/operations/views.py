"""The console's first page: the overview."""

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
    """The whole page."""
    return render(request, "manage/overview.html", {"overview": overview()})


@staff_only
@never_cache
@require_GET
def overview_status(request: HttpRequest) -> HttpResponse:
    """The content without its frame, for polling."""
    return render(request, "manage/_overview.html", {"overview": overview()})
