"""The page that explains a wrong answer to those who know the right one; without htmx, the answer's whole page."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from webapp.access import limits
from webapp.access.collections import access_of
from webapp.access.roles import Action
from webapp.asking.views import answer_context, kept_answer
from webapp.explaining import service as why
from webapp.pages.errors import refused
from webapp.pages.guards import allowed
from webapp.pages.htmx import HtmxRequest
from webapp.refusals import REFUSALS


@allowed(Action.EXPLAIN)
@require_http_methods(["GET", "POST"])
def explain(request: HtmxRequest, answer_id: UUID) -> HttpResponse:
    """Explain the answer; nothing is stored. A link here, such as the login's, leads to the answer."""
    asked = kept_answer(request, answer_id)
    if request.method != "POST":
        return redirect(f"{reverse('answer', args=[asked.pk])}#why")
    right_answer = request.POST.get("right_answer", "")
    context = answer_context(request, asked, []) | {"right_answer": right_answer}
    try:
        limits.count_questions(request)
        context["why"] = why.explain(asked, right_answer, access_of(request.user))
    except REFUSALS as error:
        return refused(request, error, "ask/answer.html", context | {"why_error": error})
    return render(request, "ask/partial_why.html" if request.htmx else "ask/answer.html", context)
