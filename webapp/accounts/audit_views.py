"""The page of the audit trail: who did what, when, with which settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.models import AuditEntry
from webapp.models.audit import action_in_words
from webapp.pages.guards import console_page
from webapp.pages.paging import numbered_page

_PAGE_SIZE: Final = 50


@console_page
def audit_trail(request: HttpRequest) -> HttpResponse:
    """All entries, newest first, or those of a person, an action, a day (UTC)."""
    # PostgreSQL refuses NUL in queries, and no name has it.
    name, action, day = (request.GET.get(key, "").replace("\x00", "") for key in ("name", "action", "day"))
    entries = AuditEntry.objects.select_related("job")
    if name:
        entries = entries.filter(name=name)
    if action:
        entries = entries.filter(action=action)
    trouble = ""
    if day:
        try:
            start = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
            end = start + timedelta(days=1)
        except (ValueError, OverflowError):  # OverflowError: after the last day of the calendar
            trouble = f"“{day[:20]}” is no date; write it as 2026-01-31."
        else:
            entries = entries.filter(at__gte=start, at__lt=end)
    actions = AuditEntry.objects.order_by("action").values_list("action", flat=True).distinct()
    context = {
        "page": numbered_page(request, entries, _PAGE_SIZE),
        "names": AuditEntry.objects.order_by("name").values_list("name", flat=True).distinct(),
        "actions": sorted(((one, action_in_words(one)) for one in actions), key=itemgetter(1)),
        "name": name,
        "action": action,
        "day": day,
        "trouble": trouble,
    }
    return render(request, "manage/audit.html", context)
