"""The history page."""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_POST, require_safe

from webapp.access.roles import Action
from webapp.asking import history as service
from webapp.models import GoneBlock
from webapp.pages.guards import allowed

_PER_PAGE: Final = 25


@allowed(Action.ASK)
@require_safe
@cache_control(private=True, no_cache=True)
def history(request: HttpRequest) -> HttpResponse:
    """The visitor's own questions, latest first; `changed`: those whose evidence has changed since."""
    answers = service.listed_answers(request)
    changed = answers.filter(GoneBlock.in_any_evidence())
    only_changed = "changed" in request.GET
    page = Paginator(changed if only_changed else answers, _PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "only_changed": only_changed, "some_changed": only_changed or changed.exists()}
    return render(request, "history/history.html", context)


@allowed(Action.ASK)
@require_POST
def forget(request: HttpRequest) -> HttpResponse:
    """Empty the visitor's history."""
    forgotten = service.forget(request)
    noun = "question is" if forgotten == 1 else "questions are"
    messages.success(request, f"{forgotten} {noun} no longer connected with you.")
    return redirect("history")
