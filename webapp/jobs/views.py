"""Pages of jobs: the list, and starting one. The list polls with htmx while a job is active; without JavaScript it has
a link to reload."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from realm_core.errors import RealmError
from webapp.jobs import service as jobs
from webapp.jobs.form import JobForm, starting_values
from webapp.jobs.service import AlreadyActive
from webapp.kinds import KINDS, Kind, ParameterError, startable
from webapp.models import Job, JobState, Queue
from webapp.models.job import ACTIVE, FINISHED, MAX_INTERRUPTIONS
from webapp.pages.guards import console_form, console_page, staff_member
from webapp.pages.htmx import STOP_POLLING
from webapp.pages.paging import numbered_page

_SHOW: Final = {"active": ACTIVE, "finished": FINISHED, "failed": (JobState.FAILED, JobState.INTERRUPTED)}


@console_page
def job_list(request: HttpRequest) -> HttpResponse:
    """All jobs, the newest first."""
    return render(request, "manage/jobs.html", _table(request))


@console_page
def job_table(request: HttpRequest) -> HttpResponse:
    """The table alone, for polling."""
    context = _table(request)
    return render(request, "manage/_jobs.html", context, status=200 if context["any_active"] else STOP_POLLING)


@console_page
def kind_list(request: HttpRequest) -> HttpResponse:
    """Every kind of job that a person can start, with a sentence each."""
    groups: dict[str, list[Kind]] = {}
    for kind in startable():
        groups.setdefault(kind.task.group, []).append(kind)
    return render(request, "manage/kinds.html", {"groups": groups.items()})


@console_form
def new_job(request: HttpRequest, kind: str) -> HttpResponse:
    """The form of one kind of job. ?from=JOB starts from that job's settings, ?NAME=VALUE from that value."""
    described = KINDS.get(kind)
    if described is None or not described.by_hand:
        raise Http404
    earlier = _named(request, "from", Job.objects.filter(kind=kind))
    form = JobForm(
        described,
        request.POST if request.method == "POST" else None,
        starting_values(described, earlier, request.GET.dict()),
    )
    duplicate = None
    if form.is_valid():
        try:
            job = jobs.start(kind, form.parameters(), by=staff_member(request), settings_of=earlier)
        except AlreadyActive as active:
            duplicate = active.job
        except ParameterError as error:
            form.refuse(error)
        except RealmError as error:
            form.add_error(None, str(error))
        else:
            return redirect("manage-job", job.pk)
    elif form.is_bound:
        form.refuse_the_rest()
    status = 409 if duplicate else 422 if form.errors else 200
    context = {"kind": described, "form": form, "earlier": earlier, "duplicate": duplicate}
    return render(request, "manage/new_job.html", context, status=status)


def _named(request: HttpRequest, parameter: str, among: QuerySet[Job]) -> Job | None:
    """The job that a query parameter names."""
    wanted = request.GET.get(parameter)
    if wanted is None:
        return None
    try:
        return among.defer("log", "result").get(pk=UUID(wanted))
    except (ValueError, Job.DoesNotExist):
        raise Http404 from None


def _table(request: HttpRequest) -> dict[str, Any]:
    show, kind, queue = (request.GET.get(name, "") for name in ("show", "kind", "queue"))
    parent = _named(request, "part_of", Job.objects.all())
    found = Job.objects.select_related("created_by").defer("log", "result").filter(parent=parent)
    if show in _SHOW:
        found = found.filter(state__in=_SHOW[show])
    if kind in KINDS:
        found = found.filter(kind=kind)
    if queue in Queue.values:
        found = found.filter(queue=queue)
    goes_on = Q(state__in=ACTIVE) | Q(state=JobState.INTERRUPTED, interruptions__lte=MAX_INTERRUPTIONS)
    page = numbered_page(request, found)
    started_by = jobs.who_started(list(page))
    return {
        "page": page,
        "rows": [(job, started_by[job.pk]) for job in page],
        "any_active": Job.objects.filter(goes_on).exists(),
        "parent": parent,
        "show": show,
        "kind": kind,
        "queue": queue,
        "shows": [("", "all"), ("active", "waiting or running"), ("failed", "failed"), ("finished", "ended")],
        "kinds": [(one.kind, one.title) for one in startable()],
        "queues": Queue.choices,
    }
