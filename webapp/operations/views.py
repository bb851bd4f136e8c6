"""The console's first page: the overview."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.operations.overview import overview
from webapp.pages.guards import console_page


@console_page
def overview_page(request: HttpRequest) -> HttpResponse:
    return render(request, "manage/overview.html", {"overview": overview()})


@console_page
def overview_status(request: HttpRequest) -> HttpResponse:
    """The content without its frame, for polling."""
    return render(request, "manage/_overview.html", {"overview": overview()})
