"""Start, stop and resume jobs: for pages, REST and schedules alike, with entries in the audit trail."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from realm_core.errors import RealmError, quoted
from realm_core.settings import FILE
from webapp.jobs import parts
from webapp.jobs.queue import enqueue
from webapp.kinds import KINDS, Kind, ParameterError, startable
from webapp.models import AuditEntry, Job, Schedule
from webapp.models.job import ACTIVE, ITS_PARTS
from webapp.refusals import StateConflict
from webapp.sources.service import sources

_IGNORED_IN_FINGERPRINT = "name"  # two jobs that differ only in the name of their result are duplicates
# Kind → a function of the written parameters, called before a person starts a job. Subjects that import this one
# register theirs here. A schedule prepares its own jobs.
PREPARATIONS: Final[dict[str, Callable[[Mapping[str, Any], User], None]]] = {}


class AlreadyActive(RealmError):
    """A job with the same parameters, `job`, is queued or running."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"The same is being done already by job {job.pk}.")
        self.job = job


def start(kind: str, parameters: Mapping[str, Any], *, by: User | str | None, settings_of: Job | None = None) -> Job:
    """Start a job of `kind`; omitted settings have their defaults.

    by: a person, or the name of an automatic actor. settings_of: the earlier job whose settings this one started from.
    Raises ParameterError for wrong parameters, AlreadyActive for a duplicate of an active job.
    """
    described = KINDS.get(kind)
    if described is None or not described.by_hand:
        raise ParameterError({"kind": f"must be one of {', '.join(one.kind for one in startable())}, not {kind!r}."})
    written = described.written(described.read(parameters))
    if isinstance(by, User):  # the job of a schedule reports missing files when it runs
        _find_files(described, written)
        if (prepare := PREPARATIONS.get(described.kind)) is not None:
            prepare(written, by)
    fingerprint = _fingerprint(described.kind, written)
    with _refusing_duplicates(fingerprint):
        # Removing files locks these rows, too: it sees the job, or has already marked the rows as removed.
        for one in described.inputs:
            given = written[one.name]
            pks = [pk for pk in (given if isinstance(given, list) else [given]) if pk is not None]
            list(one.record._base_manager.select_for_update().filter(pk__in=pks))
        described.read(parameters)
        job = Job.objects.create(
            kind=described.kind,
            queue=described.queue,
            parameters=written,
            fingerprint=fingerprint,
            created_by=by if isinstance(by, User) else None,
            settings_of=settings_of,
        )
        AuditEntry.record("job.start", described.title, by=by, job=job, parameters=written)
        enqueue(job)
    return job


def carried_over(earlier: Job) -> dict[str, Any]:
    """The parameters of an earlier job for a new one of its kind, without those that an upgrade has removed."""
    kind = KINDS[earlier.kind]
    names = {one.name for one in kind.inputs} | {one.name for one in kind.described()}
    return {name: value for name, value in earlier.parameters.items() if name in names}


def who_started(jobs: Collection[Job]) -> dict[uuid.UUID, User | Schedule | str]:
    """Job's id → the person or schedule that started it, else the actor's name; "" if unknown.

    A part counts as started by the starter of its parent.
    """
    entries = AuditEntry.objects.filter(action="job.start", job__in={job.parent_id or job.pk for job in jobs})
    names = dict(entries.order_by("-pk").values_list("job_id", "name"))
    schedules = {one.audit_name: one for one in Schedule.of_audit_names(set(names.values()))}
    started: dict[uuid.UUID, User | Schedule | str] = {}
    for job in jobs:
        name = names.get(job.parent_id or job.pk) or ""
        by_itself: Schedule | str = schedules.get(name) or name
        started[job.pk] = by_itself if job.created_by is None else job.created_by
    return started


def schedules_of(jobs: Collection[Job]) -> dict[uuid.UUID, Schedule]:
    """Job's id → the schedule that started it, by itself or because a person ran it; of a part, that of its parent.

    A schedule that was removed is left out.
    """
    entries = Schedule.beginnings().filter(job__in={job.parent_id or job.pk for job in jobs})
    # Who ran a schedule by hand is the name there, and the schedule's number among the details.
    names = {
        job_id: name if action == "job.start" else f"{Schedule.AUDIT_NAME}{details['schedule']}"
        for job_id, action, name, details in entries.values_list("job_id", "action", "name", "details")
    }
    schedules = {one.audit_name: one for one in Schedule.of_audit_names(set(names.values()))}
    found = {job.pk: schedules.get(names.get(job.parent_id or job.pk, "")) for job in jobs}
    return {pk: schedule for pk, schedule in found.items() if schedule is not None}


def stop(job: Job, *, by: User | str | None) -> bool:
    """Ask a job and its parts to stop. False: it has ended."""
    with transaction.atomic():
        stopped = job.request_stop()
        if stopped:
            Job.stop_all(job.parts.all())
            AuditEntry.record("job.stop", job.get_kind_display(), by=by, job=job)
    if job.lease_owner == ITS_PARTS:
        parts.settle(job)
        job.refresh_from_db()
    return stopped


def resume(job: Job, *, by: User | str | None) -> bool:
    """Queue a job again that failed, was stopped or was interrupted. False: its state has changed.

    Raises AlreadyActive if another job does the same meanwhile, and StateConflict if `gone` names something.
    """
    if lost := gone(job):
        raise StateConflict(f"It cannot be resumed: {lost}.")
    with _refusing_duplicates(job.fingerprint):
        resumed = job.resume()
        if resumed:
            AuditEntry.record("job.resume", job.get_kind_display(), by=by, job=job)
            enqueue(job)
    return resumed


def gone(job: Job) -> str:
    """The missing input of a job that could be resumed, in words; "" if none is missing."""
    kind = KINDS.get(job.kind)  # None: a kind that no longer exists
    for one in kind.inputs if kind and job.can_resume else ():
        wanted = set(job.records(one.name))
        if one.choices().filter(pk__in=wanted).count() < len(wanted):
            return f"{one.records.what} that it works on is not there any more"
    return ""


def _find_files(kind: Kind, written: Mapping[str, Any]) -> None:
    """Refuse a setting that names a file which is not among the files to ingest."""
    named = {one.name: written[one.name] for one in kind.described() if one.limit == FILE and written[one.name]}
    there = {one.name for one in sources()} if named else set()
    if missing := {name: file for name, file in named.items() if file not in there}:
        raise ParameterError(
            {
                name: f"must be the name of a file to ingest, and there is no {quoted(file)}; send it first."
                for name, file in missing.items()
            }
        )


@contextmanager
def _refusing_duplicates(fingerprint: str) -> Iterator[None]:
    """A transaction in which the database refuses a second active job that does the same."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError:
        same = _active_like(fingerprint)
        if same is None:  # it has just ended
            raise RealmError("The same job was being done until now; try again.") from None
        raise AlreadyActive(same) from None


def _fingerprint(kind: str, parameters: Mapping[str, Any]) -> str:
    deciding = {name: value for name, value in parameters.items() if name != _IGNORED_IN_FINGERPRINT}
    return hashlib.sha256(json.dumps([kind, deciding], sort_keys=True).encode()).hexdigest()


def _active_like(fingerprint: str) -> Job | None:
    return Job.objects.filter(fingerprint=fingerprint, state__in=ACTIVE).defer("log").first() if fingerprint else None
