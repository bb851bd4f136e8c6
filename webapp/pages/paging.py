"""Lists on pages, by page number."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Page, Paginator
from django.http import HttpRequest


def numbered_page(request: HttpRequest, records: Any, size: int = 25) -> Page[Any]:
    """The page that `?page=` names, or the nearest that there is. records: a QuerySet or a sequence."""
    return Paginator(records, size).get_page(request.GET.get("page"))
