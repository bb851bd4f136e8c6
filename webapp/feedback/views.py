"""Pages that give feedback on an answer and delete it; without htmx, the forms lead back to the answer."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from realm_core.corpus.records import BLOCK_ID
from webapp.access import limits
from webapp.access.roles import Action
from webapp.asking.history import asker_of
from webapp.asking.views import answer_context, kept_answer
from webapp.feedback import service as feedback
from webapp.models import AskedAnswer
from webapp.pages.errors import refused
from webapp.pages.guards import allowed
from webapp.pages.htmx import HtmxRequest
from webapp.refusals import REFUSALS

_RIGHT: Final = {"yes": True, "no": False}


@allowed(Action.FEEDBACK)
@require_http_methods(["GET", "POST"])
def give(request: HtmxRequest, answer_id: UUID) -> HttpResponse:
    """Keep feedback; a link here, such as the login's, leads to the answer."""
    answer = kept_answer(request, answer_id)
    if request.method != "POST":
        return _back(answer)
    try:
        limits.count_questions(request)
        feedback.give_feedback(
            asker_of(request, create=True),
            answer,
            right=_RIGHT.get(request.POST.get("right", "")),
            block_id=_block(request),
            better_answer=request.POST.get("better_answer", ""),
        )
    except REFUSALS as error:
        return _box(request, answer, error)
    return _said(request, answer)


@allowed(Action.FEEDBACK)
@require_http_methods(["GET", "POST"])
def withdraw(request: HtmxRequest, answer_id: UUID) -> HttpResponse:
    answer = kept_answer(request, answer_id)
    if request.method != "POST":
        return _back(answer)
    feedback.withdraw(asker_of(request), answer)
    return _said(request, answer)


def _said(request: HtmxRequest, answer: AskedAnswer) -> HttpResponse:
    if not request.htmx:
        return _back(answer)
    return render(request, "ask/partial_feedback.html", answer_context(request, answer, []))


def _block(request: HtmxRequest) -> str:
    """The chosen block, else the one whose link or id was typed; anything else is refused."""
    written = request.POST.get("other_block", "").strip()
    found = BLOCK_ID.search(written)
    return request.POST.get("block_id", "") or (found.group() if found else written)


def _back(answer: AskedAnswer) -> HttpResponse:
    return redirect(f"{reverse('answer', args=[answer.pk])}#feedback")


def _box(request: HtmxRequest, answer: AskedAnswer, error: Exception) -> HttpResponse:
    """The answer's page again, with the error and the input."""
    typed = {name: request.POST.get(name, "") for name in ("better_answer", "block_id", "other_block")}
    context = answer_context(request, answer, []) | {"feedback_error": error, "typed": typed}
    return refused(request, error, "ask/answer.html", context)
