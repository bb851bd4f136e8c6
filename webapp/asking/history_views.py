"""The history page."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_POST, require_safe

from webapp.access.roles import Action
from webapp.asking import history as service
from webapp.models import GoneBlock
from webapp.pages.guards import allowed
from webapp.pages.paging import numbered_page
from webapp.text import counted


@allowed(Action.ASK)
@require_safe
@cache_control(private=True, no_cache=True)
def history(request: HttpRequest) -> HttpResponse:
    """The visitor's own questions, latest first; `changed`: those whose evidence has changed since."""
    answers = service.listed_answers(request)
    changed = answers.filter(GoneBlock.in_any_evidence())
    only_changed = "changed" in request.GET
    page = numbered_page(request, changed if only_changed else answers)
    context = {"page": page, "only_changed": only_changed, "some_changed": only_changed or changed.exists()}
    return render(request, "history/history.html", context)


@allowed(Action.ASK)
@require_POST
def forget(request: HttpRequest) -> HttpResponse:
    """Empty the visitor's history."""
    forgotten = service.forget(request)
    are = "is" if forgotten == 1 else "are"
    messages.success(request, f"{counted(forgotten, 'question')} {are} no longer connected with you.")
    return redirect("history")
