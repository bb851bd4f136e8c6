"""Pages of one job: progress, metrics, log, settings, and the records that it made.

The live parts (state, diagrams, log) poll separately with htmx, each at its own interval; without JavaScript the page
of a running job has a link to reload it.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.db.models import Case, QuerySet, When
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET

from realm_core.errors import RealmError
from realm_core.runs.activity import duration, per_second
from webapp.access.roles import Action
from webapp.jobs import plots
from webapp.jobs import result as job_result
from webapp.jobs import service as jobs
from webapp.jobs.form import differing
from webapp.jobs.logs import open_log
from webapp.kinds import KINDS, Input
from webapp.models import (
    AuditEntry,
    CorpusSnapshot,
    Deployment,
    IndexGeneration,
    Job,
    JobKind,
    JobState,
    ModelVersion,
)
from webapp.models.job import ACTIVE
from webapp.pages.drawing import image
from webapp.pages.guards import allowed, console_action, console_page, staff_member
from webapp.pages.htmx import STOP_POLLING
from webapp.refusals import StateConflict

_WAITING_LONG_S: Final = 60  # a free worker takes a queued job at once
_SILENT_S: Final = 30  # a worker that was lost is noticed after a minute; until then the page says what is known
_PARTS_SHOWN: Final = 12


@console_page
def job_page(request: HttpRequest, job_id: UUID) -> HttpResponse:
    job = _job(job_id)
    return render(request, "manage/job.html", {**_live(job), **_lasting(job), "curves": plots.curves(job.pk)})


@console_page
def job_status(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """State and progress, for polling."""
    job = _job(job_id)
    return render(request, "manage/_job.html", _live(job), status=_polling(job))


@console_page
def job_log(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """The end of the log, for polling."""
    job = _job(job_id)
    return render(request, "manage/_job_log.html", {"job": job}, status=_polling(job))


@console_page
def whole_log(_request: HttpRequest, job_id: UUID) -> FileResponse:
    """The whole log, as a download; of a running job, its log so far."""
    job = _job(job_id)
    return FileResponse(
        open_log(job), as_attachment=True, filename=f"{job.kind}-{job.pk}.txt", content_type="text/plain; charset=utf-8"
    )


@console_page
def job_plots(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """The diagrams, for polling."""
    job = _job(job_id)
    context = {"job": job, "curves": plots.curves(job.pk)}
    return render(request, "manage/_job_plots.html", context, status=_polling(job))


@allowed(Action.OPERATE)
@require_GET
def job_plot(request: HttpRequest, job_id: UUID, panel: str) -> HttpResponse:
    """One diagram, as an SVG image."""
    svg = plots.curve_svg(_job(job_id).pk, panel)
    if svg is None:
        raise Http404
    return image(svg)


@console_action
def stop(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Ask a job to stop."""
    job = _job(job_id)
    if jobs.stop(job, by=staff_member(request)):
        messages.info(request, "The job was asked to stop.")
    else:
        messages.info(request, f"The job is {job.get_state_display()}; there is nothing to stop.")
    return redirect("manage-job", job.pk)


@console_action
def resume(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Queue a job again; it resumes from what it had finished."""
    job = _job(job_id)
    try:
        resumed = jobs.resume(job, by=staff_member(request))
    except (RealmError, StateConflict) as error:
        messages.error(request, str(error))
        return redirect("manage-job", job.pk)
    if resumed:
        messages.info(request, "The job is queued again.")
    else:
        messages.info(request, f"The job is {job.get_state_display()}; it cannot be resumed.")
    return redirect("manage-job", job.pk)


@console_action
def pin(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Protect a job's run folder from retention, or stop that."""
    job = _job(job_id)
    pinned = request.POST.get("pinned") == "1"
    Job.objects.filter(pk=job.pk).update(pinned=pinned)
    AuditEntry.record("job.pin" if pinned else "job.unpin", job.get_kind_display(), by=staff_member(request), job=job)
    messages.info(request, "Its run folder is kept for ever." if pinned else "Retention may remove its run folder.")
    return redirect("manage-job", job.pk)


def _job(job_id: UUID) -> Job:
    others = ("parent", "settings_of")
    unread = [f"{other}__{field}" for other in others for field in ("log", "result")]
    return get_object_or_404(Job.objects.select_related("created_by", *others).defer(*unread), pk=job_id)


def _polling(job: Job) -> int:
    return 200 if _goes_on(job) else STOP_POLLING


def _goes_on(job: Job) -> bool:
    """Whether a job can still change by itself; the parts of a job may outlast it."""
    return job.is_active or job.resumes_at is not None or job.parts.filter(state__in=ACTIVE).exists()


def _live(job: Job) -> dict[str, Any]:
    """What changes while the job runs."""
    waiting_long = job.state == JobState.QUEUED and timezone.now() - job.queued_at > timedelta(seconds=_WAITING_LONG_S)
    return {
        "job": job,
        "kind": KINDS[job.kind],
        "progress": progress(job),
        "goes_on": _goes_on(job),
        "waiting_long": waiting_long,
        **_times(job),
        # The progress of a job with parts is that of its parts, so it may have no run folder.
        "begins_anew": job.can_resume and not job.run_dir.is_dir() and not job.parts.exists(),
        "gone": jobs.gone(job),
        "devices": list(job.devices.all()),
        **_parts(job),
        **_made(job),
        "ablation": job_result.ablation(job),
        "figures": job_result.figures(job),
    }


# The most important states come first.
_PARTS_IN_ORDER: Final = (
    *(JobState.FAILED, JobState.INTERRUPTED, JobState.STOPPING, JobState.RUNNING, JobState.QUEUED, JobState.STOPPED),
    JobState.SUCCEEDED,
)


def _parts(job: Job) -> dict[str, Any]:
    """The number of parts by state, and the first parts: a build of a large corpus has hundreds."""
    of_state = Counter(job.parts.values_list("state", flat=True))
    urgency = Case(*(When(state=state, then=place) for place, state in enumerate(_PARTS_IN_ORDER)))
    shown = job.parts.only("id", "kind", "state", "parameters", "progress", "error", "parent")
    return {
        "parts": [(part, progress(part)) for part in shown.order_by(urgency, "created_at")[:_PARTS_SHOWN]],
        "parts_count": of_state.total(),
        "parts_done": of_state[JobState.SUCCEEDED],
        "part_states": [(state, of_state[state]) for state in _PARTS_IN_ORDER if of_state[state]],
    }


def _made(job: Job) -> dict[str, Any]:
    active = Deployment.objects.filter(is_active=True).values_list("index_id", flat=True).first()
    indexes = list(job.indexes.select_related("model", "corpus"))
    made = {
        "models": [(model, _searchable(model, active)) for model in job.model_versions.all()],
        "indexes": indexes,
        "corpora": list(job.corpora.all()) or list(_read_before(job)),
        "span_sets": list(job.span_sets.select_related("corpus")),
        "evaluations": list(job.evaluations.select_related("questions", "model")),
    }
    return {"made": made if any(made.values()) else {}, "deployed_index": active}


def _read_before(job: Job) -> QuerySet[CorpusSnapshot]:
    """The corpus of which an ingest has read the same articles again."""
    ids = [job.result["corpus"]] if job.kind == JobKind.INGEST and "corpus" in job.result else []
    return CorpusSnapshot.objects.filter(pk__in=ids)


def _searchable(model: ModelVersion, deployed: int | None) -> IndexGeneration | None:
    """An index that fits a model, best the deployed one: most trainings leave the block embedder alone."""
    indexes = IndexGeneration.objects.filter(model__block_hash=model.block_hash, folded_into=None)
    return (indexes.filter(pk=deployed).first() if deployed else None) or indexes.first()


def _lasting(job: Job) -> dict[str, Any]:
    """The fixed part of a job's page: its input records and its settings."""
    kind = KINDS[job.kind]
    own, default = differing(kind, job.parameters)
    return {
        "works_on": [line for one in kind.inputs if (line := _works_on(one, job.records(one.name)))],
        "own_settings": own,
        "default_settings": default,
        "started_by": jobs.who_started([job])[job.pk],
        "audit": job.audit.select_related("by")[:10],
    }


def _works_on(one: Input, ids: list[int]) -> tuple[str, list[object]] | None:
    """(the input's name, the records); None if none was given."""
    if not ids:
        return None
    found = one.record._base_manager.in_bulk([pk for pk in ids if isinstance(pk, int)])
    return one.name.capitalize(), [found.get(pk, "not there any more") for pk in ids]


def _times(job: Job) -> dict[str, str]:
    """took: the total running time, "" before the start. since_resumed: the part since the job was resumed.

    ran_before: running time of a job that waits to be resumed.
    """
    before = duration(job.ran_before.total_seconds()) if job.ran_before else ""
    if job.started_at is None or job.state == JobState.QUEUED:
        return {"took": "", "ran_before": before}
    lately = (job.finished_at or timezone.now()) - job.started_at
    since_resumed = duration(lately.total_seconds()) if before else ""
    return {"took": duration((job.ran_before + lately).total_seconds()), "since_resumed": since_resumed}


def progress(job: Job) -> dict[str, Any]:
    """The last progress report, prepared for the page; {} before the first."""
    said = job.progress
    if not isinstance(said, dict) or "done" not in said:
        return {}
    done, total, rate, left = said["done"], said.get("total"), said.get("rate"), said.get("seconds_left")
    running = job.state == JobState.RUNNING
    # The report of an earlier attempt tells nothing about the pace of this one.
    anew = job.started_at is not None and said.get("time", 0) < job.started_at.timestamp()
    began = job.started_at.timestamp() if job.started_at else 0  # silence counts from the start of this attempt
    silent_s = timezone.now().timestamp() - max(said["time"], began) if running and said.get("time") else 0
    return {
        "done": done,
        "total": total,
        "unit": said.get("unit", ""),
        "percent": int(100 * done / total) if total else None,  # 100 only if all is done
        "rate": per_second(rate) if rate and running and not anew else "",
        "left": duration(left) if left is not None and running and not anew else "",
        "message": said.get("message", ""),
        "silent": duration(silent_s) if silent_s >= _SILENT_S else "",
    }
