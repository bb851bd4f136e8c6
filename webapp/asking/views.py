"""Pages of questions and answers; answers can be shown without some of their blocks.

htmx gets the part of the page that changes; without htmx the same address returns the whole page. Error pages are
always whole: htmx extracts their content (see `responseHandling` in base.html).
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from realm_core.errors import RealmError
from webapp.access import limits
from webapp.access.roles import Action
from webapp.asking import service as asking
from webapp.asking.history import asker_key, asker_of
from webapp.asking.reading import read
from webapp.models import AskedAnswer, GoneBlock
from webapp.pages.guards import allowed
from webapp.pages.htmx import HtmxRequest
from webapp.refusals import InvalidRequest
from webapp.serving.engine import EngineUnavailable

# Answered correctly from the default corpus; each from another field.
EXAMPLES: Final = (
    ("Film", "Who directed 2001: A Space Odyssey?"),
    ("Literature", "Who wrote Pride and Prejudice?"),
    ("Art", "Who painted Guernica?"),
    ("History", "When did the construction of the Berlin Wall begin?"),
    ("Music", "Who composed The Four Seasons?"),
    ("Chemistry", "What is the chemical symbol of tungsten?"),
)
_STAGES: Final = (
    ("wait", "Waiting for others"),
    ("repeat", "Finding the same question, asked a short while ago"),
    ("embed", "Turning the question into a vector"),
    ("search", "Searching the index"),
    ("read", "Reading the blocks"),
    ("marginalise", "Adding up"),
    ("store", "Storing the answer"),
    ("render", "Writing the page or the JSON"),
)
_RIGHT_WORDS: Final = {True: "yes", False: "no", None: ""}  # the values in the forms of feedback


@allowed(Action.ASK)
@require_http_methods(["GET", "HEAD", "POST"])
@vary_on_headers("HX-Request")
def ask(request: HtmxRequest) -> HttpResponse:
    """The question box. A posted question is answered, stored and shown at its permanent address."""
    if request.method != "POST":
        return _box(request, question=request.GET.get("q", ""))
    return _answered(request, request.POST.get("example") or request.POST.get("question", ""))


@allowed(Action.ASK)
@require_POST
def again(request: HtmxRequest, answer_id: UUID) -> HttpResponse:
    """Ask the question of a stored answer again, with the same number of blocks and the same exclusions."""
    earlier = get_object_or_404(AskedAnswer, pk=answer_id)
    return _answered(request, earlier.question, earlier)


def _answered(request: HtmxRequest, question: str, again_of: AskedAnswer | None = None) -> HttpResponse:
    """The response to a question. again_of: the stored answer whose question is asked again."""
    settings = {"k": again_of.k, "exclude": again_of.exclude} if again_of else {}
    try:
        checked = asking.checked(question, **settings)
        if (wait_s := limits.seconds_to_wait(request)) is not None:
            error = f"Too many questions. Ask again in {wait_s} seconds."
            response = _box(request, question, error, status=429)
            response["Retry-After"] = str(wait_s)
            return response
        asked = asking.ask(
            checked.question,
            k=checked.k,
            exclude=checked.exclude,
            asker=request.user,
            session_key=asker_key(request, create=True),
            again_of=again_of,
        )
    except InvalidRequest as invalid:
        return _box(request, question, str(invalid), status=422)
    except EngineUnavailable as unavailable:
        context = {"question": question, "reason": str(unavailable), "retry_s": unavailable.retry_after_s}
        response = render(request, "503.html", context, status=503)
        response["Retry-After"] = str(unavailable.retry_after_s)
        return response
    except RealmError as refused:
        return _box(request, question, str(refused), status=422)
    address = reverse("answer", args=[asked.pk])
    if not request.htmx:
        return redirect(address)
    response = render(request, "ask/partial_answer.html", answer_context(request, asked, []))
    response["HX-Push-Url"] = address
    return response


@allowed(Action.READ)
@require_safe
@vary_on_headers("HX-Request", "HX-Target")
def answer(request: HtmxRequest, answer_id: UUID) -> HttpResponse:
    """An answer as it was given; `without` (repeatable) leaves blocks out."""
    asked = kept_answer(answer_id)
    context = answer_context(request, asked, request.GET.getlist("without"))
    whole = not request.htmx or request.htmx.history_restore_request
    return render(request, "ask/answer.html" if whole else "ask/partial_outcome.html", context)


def kept_answer(answer_id: UUID) -> AskedAnswer:
    """An answer with all related records that its page shows, or 404."""
    answers = AskedAnswer.objects.select_related("deployment__model", "deployment__index__corpus")
    return get_object_or_404(answers, pk=answer_id)


def _box(request: HttpRequest, question: str, error: str = "", status: int = 200) -> HttpResponse:
    return render(request, "ask/ask.html", {"question": question, "error": error, "examples": EXAMPLES}, status=status)


def answer_context(request: HttpRequest, asked: AskedAnswer, without: list[str]) -> dict[str, Any]:
    """The context of the answer's page, including the visitor's own feedback."""
    reading = read(asked.payload, without, GoneBlock.in_evidence(asked))
    said = asker_of(request).word_on(asked)
    query = urlencode([("without", block_id) for block_id in reading.removed_ids])
    timings_ms = {**reading.full.timings_ms, **asked.serving_ms}
    return {
        "asked": asked,
        "reading": reading,
        "asked_again": asked.asked_again.order_by("-created_at").first(),
        "said": said,
        "right": _RIGHT_WORDS[said.right if said else None],
        "stages": [(label, timings_ms[stage]) for stage, label in _STAGES if stage in timings_ms],
        "json_url": reverse("api-answer", args=[asked.pk]) + (f"?{query}" if query else ""),
    }
