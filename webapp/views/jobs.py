"""Jobs: start "build an index", follow it, stop it, resume it. Live parts poll with htmx; without JavaScript the
page of a running job has a link to itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from realm_core.errors import RealmError
from webapp.models import CorpusSnapshot, Deployment, Job, JobKind, ModelVersion
from webapp.models.job import ACTIVE
from webapp.services import jobs as services
from webapp.views.staff import staff_member, staff_only

_STOP_POLLING: Final = 286  # htmx swaps the content in and asks no more
_PAGE_SIZE: Final = 20
_WAITING_LONG_S: Final = 60  # a worker takes a queued job at once if there is one and it is free


class IndexForm(forms.Form):
    """Which model should embed which corpus."""

    model = forms.ModelChoiceField(ModelVersion.objects.all(), empty_label=None)
    corpus = forms.ModelChoiceField(CorpusSnapshot.objects.all(), empty_label=None)


@staff_only
@never_cache
@require_http_methods(["GET", "POST"])
def job_list(request: HttpRequest) -> HttpResponse:
    """All jobs, and the form that starts one."""
    form = IndexForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        job = services.start_index_build(
            form.cleaned_data["model"], form.cleaned_data["corpus"], by=staff_member(request)
        )
        return redirect("manage-job", job.pk)
    context = {"form": form, "possible": _index_can_be_built(), **_table(request)}
    return render(request, "manage/jobs.html", context, status=422 if form.errors else 200)


@staff_only
@never_cache
@require_GET
def job_table(request: HttpRequest) -> HttpResponse:
    """The table of jobs alone, for polling."""
    context = _table(request)
    return render(request, "manage/_jobs.html", context, status=200 if context["any_active"] else _STOP_POLLING)


@staff_only
@never_cache
@require_GET
def job_page(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """One job."""
    return render(request, "manage/job.html", _details(_job(job_id)))


@staff_only
@never_cache
@require_GET
def job_status(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """The live part of a job's page, for polling."""
    job = _job(job_id)
    return render(request, "manage/_job.html", _details(job), status=200 if job.is_active else _STOP_POLLING)


@staff_only
@require_POST
def stop(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Ask a job to stop."""
    job = _job(job_id)
    if services.stop(job, by=staff_member(request)):
        messages.info(request, "The job was asked to stop.")
    else:
        messages.info(request, f"The job is {job.get_state_display()}; there is nothing to stop.")
    return redirect("manage-job", job.pk)


@staff_only
@require_POST
def resume(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Queue a job again; it goes on from what it had finished."""
    job = _job(job_id)
    try:
        resumed = services.resume(job, by=staff_member(request))
    except RealmError as error:
        messages.error(request, str(error))
        return redirect("manage-job", job.pk)
    if resumed:
        messages.info(request, "The job is queued again.")
    else:
        messages.info(request, f"The job is {job.get_state_display()}; it cannot be resumed.")
    return redirect("manage-job", job.pk)


def _job(job_id: UUID) -> Job:
    return get_object_or_404(Job.objects.select_related("created_by"), pk=job_id)


def _index_can_be_built() -> bool:
    return ModelVersion.objects.exists() and CorpusSnapshot.objects.exists()


def _table(request: HttpRequest) -> dict[str, Any]:
    jobs = Job.objects.select_related("created_by").defer("log")
    page = Paginator(jobs, _PAGE_SIZE).get_page(request.GET.get("page"))
    return {"page": page, "any_active": Job.objects.filter(state__in=ACTIVE).exists()}


def _details(job: Job) -> dict[str, Any]:
    parameters = []
    if job.kind == JobKind.INDEX:
        model = ModelVersion.objects.filter(pk=job.parameters.get("model")).first()
        corpus = CorpusSnapshot.objects.filter(pk=job.parameters.get("corpus")).first()
        parameters = [("Model", str(model or "not there any more")), ("Corpus", str(corpus or "not there any more"))]
    index = job.indexes.select_related("model", "corpus").first()
    waiting_long = job.state == Job.State.QUEUED and timezone.now() - job.queued_at > timedelta(seconds=_WAITING_LONG_S)
    return {
        "job": job,
        "parameters": parameters,
        "progress": _progress(job),
        "index": index,
        "index_is_deployed": index is not None and Deployment.objects.filter(is_active=True, index=index).exists(),
        "waiting_long": waiting_long,
    }


def _progress(job: Job) -> dict[str, Any]:
    """What the process last said, made ready to be shown; {} before it has said anything."""
    said = job.progress
    if not isinstance(said, dict) or "done" not in said:
        return {}
    done, total, rate, left = said["done"], said.get("total"), said.get("rate"), said.get("seconds_left")
    running = job.state == Job.State.RUNNING
    return {
        "done": done,
        "total": total,
        "unit": said.get("unit", ""),
        "percent": round(100 * done / total) if total else None,
        "rate": f"{rate:,.1f}" if rate and running else "",
        "left": duration(left) if left is not None and running else "",
        "message": said.get("message", ""),
    }


def duration(seconds: float) -> str:
    """Seconds for people: "2 h 05 min", "3 min 20 s", "12 s"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes_left:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
