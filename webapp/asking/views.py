"""Pages of questions and answers; answers can be shown without some of their blocks.

htmx gets the part of the page that changes; without htmx the same address returns the whole page. Error pages are
always whole: htmx extracts their content (see `responseHandling` in base.html).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from realm_core.serving.english.follow_ups import is_follow_up
from realm_core.serving.english.told_words import ToldWords
from realm_core.text.language import MODELS_LANGUAGE, foreign_language
from realm_core.text.yes_or_no import asks_yes_or_no
from webapp.access import limits
from webapp.access.collections import access_of
from webapp.access.roles import Action
from webapp.asking import service as asking
from webapp.asking.conditions import conditions, counted_conditions
from webapp.asking.history import asker_key, asker_of, readable_answer, readable_answers
from webapp.asking.offering import offered
from webapp.asking.shown import ShownAnswer, shown_answer
from webapp.models import AskedAnswer, Collection, CorpusSnapshot, Deployment, GoneBlock
from webapp.pages.errors import refused
from webapp.pages.guards import allowed
from webapp.pages.htmx import HtmxRequest
from webapp.refusals import REFUSALS
from webapp.serving import pdf_places, rights
from webapp.serving.engine import EngineUnavailable
from webapp.serving.living import answering_view, foreign_language_of
from webapp.text import language_name

if TYPE_CHECKING:
    from realm_core.living.view import CorpusView

# Answered correctly from the default corpus; each from another field.
EXAMPLES: Final = (
    ("Film", "Who directed 2001: A Space Odyssey?"),
    ("Literature", "Who wrote Pride and Prejudice?"),
    ("Art", "Who painted Guernica?"),
    ("History", "When did the construction of the Berlin Wall begin?"),
    ("Music", "Who composed The Four Seasons?"),
    ("Chemistry", "What is the chemical symbol of tungsten?"),
)
_TIMING_LABELS: Final = (
    ("wait", "Waiting for others"),
    ("repeat", "Finding the same question, asked a short while ago"),
    ("embed", "Turning the question into a vector"),
    ("search", "Searching the index"),
    ("read", "Reading the passages"),
    ("marginalise", "Adding up"),
    ("store", "Storing the answer"),
    ("render", "Writing the page or the JSON"),
)
_RIGHT_WORDS: Final = {True: "yes", False: "no", None: ""}  # the values in the forms of feedback


@allowed(Action.ASK)
@require_http_methods(["GET", "HEAD", "POST"])
@vary_on_headers("HX-Request")
def ask(request: HtmxRequest) -> HttpResponse:
    """The question box, filled in by its query. A posted question is answered and shown at its permanent address."""
    if request.method != "POST":
        return _box(request, question=request.GET.get("q", ""), where=_where(request.GET))
    question = request.POST.get("example") or request.POST.get("question", "")
    return _answered(request, question, where=_where(request.POST))


@allowed(Action.ASK)
@require_POST
def again(request: HtmxRequest, answer_id: UUID) -> HttpResponse:
    """Ask the question of a kept answer again, in the same documents, of as many blocks and without the same ones.

    With `as_typed` its spelling is not corrected. With `only` it is asked of that collection alone: another question.
    """
    earlier = readable_answer(request, answer_id)
    only = request.POST.getlist("only")
    where = {"collections": only or earlier.collections, "filters": earlier.filters}
    as_typed = earlier.as_typed or "as_typed" in request.POST
    return _answered(request, earlier.question, earlier, where=where, as_typed=as_typed, repeats=not only)


def _where(form: QueryDict) -> dict[str, Any]:
    """The collections and filters that the form names."""
    filters = {
        "languages": form.getlist("languages"),
        "tags": [tag for one in form.get("tags", "").split(",") if (tag := one.strip())],
        "titles": [title] if (title := form.get("title", "").strip()) else [],
        "since": form.get("since", ""),
        "until": form.get("until", ""),
    }
    return {"collections": form.getlist("collections"), "filters": filters}


def _answered(
    request: HtmxRequest,
    question: str,
    earlier: AskedAnswer | None = None,
    *,
    where: dict[str, Any],
    as_typed: bool = False,
    repeats: bool = True,
) -> HttpResponse:
    """The response to a question that was asked.

    earlier: a kept answer, of as many blocks and without the same ones; repeats: it is that one asked again.
    where: its `collections` and `filters`.
    """
    options: dict[str, Any] = {**where, "as_typed": as_typed}
    if earlier is not None:
        options |= {"k": earlier.k, "exclude": earlier.exclude}
    try:
        wanted = asking.checked(question, **options, access=access_of(request.user))
        wanted = replace(wanted, again_of=earlier if repeats else None)
        limits.count_questions(request)
        key = asker_key(request, create=True)
        asked = asking.ask(wanted, asker=request.user, session_key=key)
    except EngineUnavailable as unavailable:
        context = {"question": question, "reason": str(unavailable), "retry_s": unavailable.retry_after_s}
        return refused(request, unavailable, "503.html", context)
    except REFUSALS as error:
        return _box(request, question, error, where=where)
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
    """An answer as it was given, for ever; `without` (repeatable) takes blocks away from it."""
    asked = kept_answer(request, answer_id)
    context = answer_context(request, asked, request.GET.getlist("without"))
    whole = not request.htmx or request.htmx.history_restore_request
    return render(request, "ask/answer.html" if whole else "ask/partial_outcome.html", context)


def kept_answer(request: HttpRequest, answer_id: UUID) -> AskedAnswer:
    """An answer that this person may read, with all that its page names, or 404."""
    return readable_answer(request, answer_id, "deployment__model", "deployment__index__corpus")


def _box(
    request: HttpRequest, question: str, error: Exception | None = None, where: dict[str, Any] | None = None
) -> HttpResponse:
    offer = offered(request.user, **(where or {}))
    active = Deployment.active()
    context: dict[str, Any] = {"question": question, "error": error, "examples": EXAMPLES, "where": offer}
    if active is not None:
        context |= {"corpus": active.index.corpus, "share": _part(active.index.corpus)}
    return refused(request, error, "ask/ask.html", context) if error else render(request, "ask/ask.html", context)


def _part(corpus: CorpusSnapshot) -> float | None:
    """The share of its source that a corpus holds; None: all of it."""
    return corpus.share if corpus.share < 1 else None


def _foreign(asked: AskedAnswer) -> dict[str, str] | None:
    """Names of the languages of question and corpus, where the models do not know the question's."""
    language = foreign_language(asked.question)
    if language is None:
        return None
    corpus = asked.deployment.index.corpus.language
    return {"question": language_name(language), "corpus": "" if corpus == language else language_name(corpus)}


def _foreign_passage(reading: ShownAnswer, view: CorpusView | None) -> str:
    """The name of the language of the passage with the answer, where the models do not know it; else empty."""
    if reading.answer.answer is None:
        return ""
    code = foreign_language_of(reading.marked[0].evidence.block_id, view)
    return language_name(code) if code else ""


def _is_untold(reading: ShownAnswer) -> bool:
    """Whether no answer was found to a question for something that no passage that was read speaks of."""
    answer, wanted = reading.full, ToldWords.of(reading.full.question)
    if answer.answer is not None or not answer.evidence or not wanted.patterns:
        return False
    return not any(wanted.are_in(one.title, one.text) for one in answer.evidence)


def answer_context(request: HttpRequest, asked: AskedAnswer, without: list[str]) -> dict[str, Any]:
    """The context of the answer's page, including the visitor's own feedback."""
    evidence, index = asked.payload["evidence"], asked.deployment.index
    pdfs = pdf_places.of_evidence(evidence, access_of(request.user).hidden)
    view = answering_view()
    own = rights.on_cards(evidence, index, view)
    private = {one.name: str(one) for one in Collection.objects.filter(private=True)}
    reading = shown_answer(asked.payload, without, GoneBlock.in_evidence(asked), pdfs, own, private)
    said = asker_of(request).feedback_on(asked)
    query = urlencode([("without", block_id) for block_id in reading.removed_ids])
    language = _foreign(asked)
    looked_in = conditions(asked) if reading.blocks else counted_conditions(asked, access_of(request.user))
    timings_ms = {**reading.full.timings_ms, **asked.serving_ms}
    return {
        "asked": asked,
        "reading": reading,
        "where": offered(request.user, asked.collections, asked.filters),
        "looked_in": looked_in,
        "language": language,
        "passage_language": _foreign_passage(reading, view),
        "models_language": language_name(MODELS_LANGUAGE),
        # By English words, which another language may have in another sense: “Was ist …?”
        "follow_up": language is None and is_follow_up(asked.question),
        "yes_or_no": language is None and asks_yes_or_no(asked.question),
        "untold": language is None and _is_untold(reading),
        "share": _part(asked.deployment.index.corpus),
        "asked_again": readable_answers(request).filter(again_of=asked).order_by("-created_at").first(),
        "said": said,
        "right": _RIGHT_WORDS[said.right if said else None],
        "repeated": "repeat" in timings_ms,
        "stages": [(label, timings_ms[stage]) for stage, label in _TIMING_LABELS if stage in timings_ms],
        "json_url": reverse("api-answer", args=[asked.pk]) + (f"?{query}" if query else ""),
    }
