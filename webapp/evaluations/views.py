"""Pages of evaluations, single and side by side."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET

from realm_core.errors import RealmError
from realm_core.evaluation.figures import RECALL_AT
from webapp.access.collections import access_of
from webapp.access.roles import Action
from webapp.evaluations import service as comparing
from webapp.evaluations.outcomes import ALL_CAUSES, QuestionOutcome, causes, outcomes
from webapp.evaluations.service import Candidate, Differ
from webapp.models import CorpusSnapshot, Deployment, Evaluation, ModelVersion, Purpose, QuestionSet
from webapp.pages import drawing
from webapp.pages.guards import allowed, console_action, curator_page, staff_member
from webapp.pages.paging import numbered_page

_PAGE_SIZE: Final = 20


class CompareForm(forms.Form):
    """Two models and a question set."""

    first = forms.ModelChoiceField(ModelVersion.objects.all(), label="First model", empty_label="Choose …")
    second = forms.ModelChoiceField(ModelVersion.objects.all(), label="Second model", empty_label="Choose …")
    questions = forms.ModelChoiceField(QuestionSet.objects.filter(purpose=Purpose.MEASURE), empty_label="Choose …")
    corpus = forms.ModelChoiceField(CorpusSnapshot.objects.all(), empty_label="Choose …")
    sample = forms.IntegerField(min_value=0, label="How many of the questions", help_text="0: all of them.")

    def clean(self) -> dict[str, Any]:
        values = self.cleaned_data
        if values.get("first") is not None and values.get("first") == values.get("second"):
            self.add_error("second", "Choose another model than the first.")
        return values

    def candidates(self) -> list[Candidate]:
        """The two candidates, over the corpus."""
        return [Candidate(self.cleaned_data[name], self.cleaned_data["corpus"]) for name in ("first", "second")]


@curator_page
def evaluation_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One evaluation: figures, calibration, its questions, and evaluations to compare it with."""
    evaluation = _evaluation(pk)
    comparable = [
        other
        for other in Evaluation.objects.filter(questions=evaluation.questions).exclude(pk=pk).select_related("model")
        if not comparing.why_not_comparable(evaluation, other)
    ]
    figures = evaluation.figures
    cause = request.GET.get("cause") if request.GET.get("cause") in ALL_CAUSES else None
    context: dict[str, Any] = {
        "evaluation": evaluation,
        "recalls": [(k, figures[f"recall@{k}"]) for k in RECALL_AT if f"recall@{k}" in figures],
        "comparable": comparable,
        "causes": causes(evaluation),
        "cause": cause,
        "kept_back": _is_kept_back(request),
    }
    try:
        found = outcomes(evaluation)
    except (RealmError, OSError) as error:
        context["trouble"] = str(error)
    else:
        wanted = request.GET.get("show", found.worst)
        show = QuestionOutcome(wanted) if wanted in set(QuestionOutcome) and cause is None else None
        context |= {
            "show": "" if cause else show or "all",
            "counts": found.counts,
            "all_right": found.worst is QuestionOutcome.RIGHT,
            "page": numbered_page(request, found.of(show, cause), _PAGE_SIZE),
        }
    return render(request, "manage/evaluation.html", context)


@allowed(Action.CURATE)
@require_GET
def evaluation_plot(request: HttpRequest, pk: int, panel: str) -> HttpResponse:
    """Exact match and recall, or calibration, as an SVG image."""
    evaluation = _evaluation(pk)
    figures = evaluation.figures
    if panel == "figures":
        recalls = ((f"recall@{k}", float(figures[f"recall@{k}"])) for k in RECALL_AT if f"recall@{k}" in figures)
        return drawing.image(drawing.bars_svg((("exact match", evaluation.exact_match), *recalls)))
    bins = tuple(
        (row["low"], row["high"], row["mean_probability"], row["share_right"]) for row in figures.get("reliability", [])
    )
    if panel != "calibration" or not bins:
        raise Http404
    return drawing.image(drawing.reliability_svg(bins))


@curator_page
def compare(request: HttpRequest) -> HttpResponse:
    """Choose two models and questions; then the comparison if both were measured, else what is missing."""
    active = Deployment.active()
    initial = {
        "sample": comparing.QUICK_SAMPLE,
        "corpus": active.index.corpus_id if active else None,
        "first": active.model_id if active else None,
    } | request.GET.dict()  # a link may have made the choice already
    chosen = CompareForm.base_fields.keys() <= request.GET.keys()
    form = CompareForm(request.GET if chosen else None, initial=initial)
    missing: list[Candidate] = []
    if chosen and form.is_valid():
        questions, sample = form.cleaned_data["questions"], form.cleaned_data["sample"]
        found = [comparing.find(candidate, questions, sample) for candidate in form.candidates()]
        if (first := found[0]) is not None and (second := found[1]) is not None:
            return redirect("manage-comparison", first.pk, second.pk)
        missing = [candidate for candidate, there in zip(form.candidates(), found, strict=True) if there is None]
    context: dict[str, Any] = {"form": form, "missing": missing, "enough": _enough()}
    if missing:
        drawn = form.cleaned_data["questions"].drawn(form.cleaned_data["sample"])
        asked = {"questions": form.cleaned_data["questions"].pk, "sample": drawn}
        context["drawn"] = drawn
        under_way = comparing.evaluations_under_way(missing)
        context["measuring"] = [job for job in under_way if asked.items() <= job.parameters.items()]
    return render(request, "manage/compare.html", context, status=422 if form.errors else 200)


@console_action
def measure(request: HttpRequest) -> HttpResponse:
    """Start the evaluations that a comparison lacks."""
    form = CompareForm(request.POST)
    if not form.is_valid():
        return render(request, "manage/compare.html", {"form": form, "enough": _enough()}, status=422)
    names = ("first", "second", "questions", "corpus")
    query = {name: form.cleaned_data[name].pk for name in names} | {"sample": form.cleaned_data["sample"]}
    start_missing(request, form.candidates(), form.cleaned_data["questions"], form.cleaned_data["sample"])
    return redirect(f"{reverse('manage-compare')}?{urlencode(query)}")


def start_missing(request: HttpRequest, candidates: list[Candidate], questions: QuestionSet, sample: int) -> None:
    """Start the missing evaluations, and report that."""
    try:
        _, started = comparing.measure_missing(candidates, questions, sample, by=staff_member(request))
    except RealmError as error:
        messages.error(request, str(error))
        return
    if started:
        what = "One evaluation is" if len(started) == 1 else f"{len(started)} evaluations are"
        messages.info(request, f"{what} being made; see the jobs.")
    else:
        who = "Both have" if len(candidates) > 1 else "It has"
        messages.info(request, f"{who} been asked these questions already; nothing was started.")


@curator_page
def comparison(request: HttpRequest, first_pk: int, second_pk: int) -> HttpResponse:
    """Two evaluations side by side, and the questions on which they differ."""
    first, second = _evaluation(first_pk), _evaluation(second_pk)
    wanted = request.GET.get("show", "")
    show = Differ(wanted) if wanted in set(Differ) else None
    context: dict[str, Any] = {"first": first, "second": second, "show": wanted if show else ""}
    context["columns"] = [("A", first, _short_name(first, second)), ("B", second, _short_name(second, first))]
    try:
        compared = comparing.compare(first, second, show)
    except (RealmError, OSError) as error:
        return render(request, "manage/comparison.html", context | {"trouble": str(error)}, status=422)
    rows = [(f"Recall at {k}", first.figures.get(f"recall@{k}"), second.figures.get(f"recall@{k}")) for k in RECALL_AT]
    of_second = {one.cause: one for one in causes(second)}
    context |= {
        "compared": compared,
        "causes": [(one, of_second[one.cause]) for one in causes(first) if one.cause in of_second],
        "edited_between": comparing.edited_between(first, second),
        "upgraded_between": comparing.upgraded_between(first, second),
        "kept_back": _is_kept_back(request),
        "recalls": [row for row in rows if None not in row],
        "one_right": compared.counts[Differ.FIRST] + compared.counts[Differ.SECOND],
        "page": numbered_page(request, compared.shown, _PAGE_SIZE),
    }
    return render(request, "manage/comparison.html", context)


def _short_name(one: Evaluation, other: Evaluation) -> str:
    """Its model's name, or where both have the same name its version."""
    return one.model.version if one.model.name == other.model.name else one.model.name


def _is_kept_back(request: HttpRequest) -> bool:
    """An evaluation asks all documents, and answers may be from a collection that this person does not read."""
    return bool(access_of(request.user).hidden)


def _evaluation(pk: int) -> Evaluation:
    return get_object_or_404(Evaluation.objects.select_related("model", "corpus", "index", "questions", "job"), pk=pk)


def _enough() -> bool:
    """Whether there are two models to compare."""
    return ModelVersion.objects.count() > 1 and QuestionSet.objects.filter(purpose=Purpose.MEASURE).exists()
