"""Pages of deployments: the active one, candidates, history, rolling back. A pair is checked before it is deployed."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode

from realm_core.errors import RealmError
from webapp.deployments import measuring
from webapp.deployments import service as deploying
from webapp.deployments.service import CONFIRMATION, NotConfirmed
from webapp.evaluations.service import QUICK_SAMPLE, Candidate, evaluations_under_way
from webapp.evaluations.views import start_missing
from webapp.models import Deployment, IndexGeneration, ModelVersion, Purpose, QuestionSet
from webapp.pages.guards import console_action, console_form, console_page, staff_member
from webapp.pages.htmx import STOP_POLLING
from webapp.pages.paging import numbered_page
from webapp.serving.living import answering_view
from webapp.serving.presence import answering
from webapp.text import one_line

_PAGE_SIZE: Final = 20


class MeasureForm(forms.Form):
    """The questions to ask both pairs. Its fields are part of the deploying form, so nothing typed there is lost."""

    questions = forms.ModelChoiceField(
        QuestionSet.objects.filter(purpose=Purpose.MEASURE),
        empty_label=None,
        widget=forms.Select(attrs={"form": "pair"}),
    )
    sample = forms.IntegerField(
        label="How many of them",
        min_value=0,
        max_value=10**9,
        initial=QUICK_SAMPLE,
        help_text="The same ones every time; 0: all.",
        widget=forms.NumberInput(attrs={"form": "pair"}),
    )


@console_page
def deployment_list(request: HttpRequest) -> HttpResponse:
    """The active deployment, the indexes that could replace it, and the history."""
    history = Deployment.objects.select_related("model", "index", "index__corpus", "activated_by")
    web = answering(Deployment.active())
    active = web.deployment
    context = {
        "web": web,
        "corpus": answering_view(),
        "indexes": IndexGeneration.objects.select_related("model", "corpus").exclude(
            pk__in=[active.index_id] if active else []
        ),
        "page": numbered_page(request, history, _PAGE_SIZE),
    }
    return render(request, "manage/deployments.html", context)


@console_page
def deployed(request: HttpRequest) -> HttpResponse:
    """The active deployment, for polling until every web process has loaded it; failed loads are retried."""
    web = answering(Deployment.active())
    context = {"web": web, "corpus": answering_view()}
    return render(request, "manage/_deployed.html", context, status=STOP_POLLING if web.all_loaded else 200)


@console_form
def deploy(request: HttpRequest) -> HttpResponse:
    """The check of a pair (?index= and ?model=), and its deployment."""
    index, model = _pair(request.POST if request.method == "POST" else request.GET)
    if request.method == "POST":
        return _do(
            request,
            lambda confirmed: deploying.deploy(
                index,
                model=model,
                by=staff_member(request),
                note=_note(request),
                confirmed=confirmed,
            ),
            model,
            index,
        )
    return _checked(request, model, index)


@console_form
def roll_back(request: HttpRequest, deployment_id: int) -> HttpResponse:
    """The check of an earlier deployment's pair, and the return to it."""
    earlier = get_object_or_404(Deployment.objects.select_related("model", "index__corpus"), pk=deployment_id)
    if earlier.is_active:
        messages.info(request, f"Deployment {earlier.pk} is the active one.")
        return redirect("manage-deployments")
    if request.method == "POST":
        return _do(
            request,
            lambda confirmed: deploying.roll_back(earlier, by=staff_member(request), confirmed=confirmed),
            earlier.model,
            earlier.index,
            earlier,
        )
    return _checked(request, earlier.model, earlier.index, earlier)


@console_action
def measure(request: HttpRequest) -> HttpResponse:
    """Ask a pair and the active deployment the same questions, if that is missing, about the same edited documents."""
    earlier = None
    if request.POST.get("deployment"):
        earlier = get_object_or_404(Deployment, pk=_number(request.POST["deployment"]))
    index, model = _pair(request.POST)
    form = MeasureForm(request.POST)
    if not form.is_valid():
        return _checked(request, model, index, earlier, form=form)
    try:
        measuring.bring_edits(index, by=staff_member(request))  # before it is looked for what was measured
    except RealmError as error:
        return _checked(request, model, index, earlier, refusal=f"It was not measured. {error}")
    start_missing(request, _candidates(model, index), form.cleaned_data["questions"], form.cleaned_data["sample"])
    return redirect(_address(model, index, earlier, _note(request)))


def _do(
    request: HttpRequest, activate: Any, model: ModelVersion, index: IndexGeneration, earlier: Deployment | None = None
) -> HttpResponse:
    try:
        deployment = activate(request.POST.get("confirmed", ""))
    except NotConfirmed as doubt:
        return _checked(request, model, index, earlier, check=doubt.check)
    except RealmError as error:
        return _checked(request, model, index, earlier, refusal=str(error))
    messages.success(request, f"Deployment {deployment.pk} answers questions as soon as it is loaded.")
    return redirect("manage-deployments")


def _checked(
    request: HttpRequest,
    model: ModelVersion,
    index: IndexGeneration,
    earlier: Deployment | None = None,
    *,
    check: deploying.PairCheck | None = None,
    form: MeasureForm | None = None,
    refusal: str = "",
) -> HttpResponse:
    """The page with the findings of a pair. check: one with doubts that stopped the deployment."""
    note = one_line((request.POST if request.method == "POST" else request.GET).get("note", ""))
    context = {
        "check": check or deploying.check(index, model),
        "earlier": earlier,
        "unconfirmed": check is not None,
        "changed": check is not None and "confirmed" in request.POST,
        "refusal": refusal,
        "confirmation": CONFIRMATION,
        "note": note,
        "address": _address(model, index, earlier, note),
        "measure": form or MeasureForm(),
        "measurable": QuestionSet.objects.filter(purpose=Purpose.MEASURE).exists(),
        "measuring": evaluations_under_way(_candidates(model, index)),
    }
    return render(request, "manage/deploy.html", context, status=422 if check or form or refusal else 200)


def _address(model: ModelVersion, index: IndexGeneration, earlier: Deployment | None, note: str) -> str:
    """The address of a pair's check, to return to after a POST."""
    if earlier is not None:
        return reverse("manage-roll-back", args=[earlier.pk])
    query: dict[str, Any] = {"index": index.pk, "model": model.pk}
    if note:
        query["note"] = note
    return f"{reverse('manage-deploy')}?{urlencode(query)}"


def _candidates(model: ModelVersion, index: IndexGeneration) -> list[Candidate]:
    """A pair, and the active deployment if it is another one."""
    active = Deployment.active()
    now = [Candidate(active.model, active.index.corpus)] if active is not None else []
    return [Candidate(model, index.corpus), *now]


def _pair(given: Any) -> tuple[IndexGeneration, ModelVersion]:
    index = get_object_or_404(IndexGeneration.objects.select_related("model", "corpus"), pk=_number(given.get("index")))
    if not given.get("model"):
        return index, index.model
    return index, get_object_or_404(ModelVersion, pk=_number(given.get("model")))


def _note(request: HttpRequest) -> str:
    return one_line(request.POST.get("note", ""))


def _number(text: str | None) -> int:
    if text is None or not text.isdecimal() or len(text) > 9:
        raise Http404
    return int(text)
