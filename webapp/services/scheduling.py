"""Index builds that start by themselves: every so many hours, daily at a time, or when a new model is made."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from realm_core.errors import RealmError
from webapp.models import (
    AuditEntry,
    CorpusSnapshot,
    Deployment,
    IndexGeneration,
    Job,
    JobKind,
    ModelVersion,
    Schedule,
    Trigger,
)
from webapp.services.jobs import AlreadyActive, start

_NAMED: Final = "schedule "  # how the audit trail calls one, with its number


def save(schedule: Schedule, *, by: User | str | None) -> Schedule:
    """Record a schedule that is new or was changed; it is due next from now on. RealmError where it makes no sense."""
    if not CorpusSnapshot.objects.filter(name=schedule.corpus_name).exists():
        raise RealmError(f"There is no corpus called {schedule.corpus_name}.")
    if schedule.trigger == Trigger.EVERY and not schedule.hours:
        raise RealmError("Say every how many hours it shall build.")
    if schedule.trigger == Trigger.AT and schedule.at is None:
        raise RealmError("Say at what time of day it shall build.")
    if schedule.trigger == Trigger.NEW_MODEL and schedule.model is not None:
        raise RealmError("For every new model the index is built by that model; name none.")
    if schedule.pk is None:
        schedule.created_by = by if isinstance(by, User) else None
    schedule.hours = schedule.hours if schedule.trigger == Trigger.EVERY else None
    schedule.at = schedule.at if schedule.trigger == Trigger.AT else None
    schedule.due_at = next_due(schedule, timezone.now()) if schedule.enabled else None
    with transaction.atomic():
        earlier = Schedule.objects.select_for_update().filter(pk=schedule.pk).first()
        schedule.save()
        told = _told(schedule)
        if earlier is not None:
            before = _told(earlier)
            changed = {name: {"from": before[name], "to": told[name]} for name in told if told[name] != before[name]}
            AuditEntry.record("schedule.edit", schedule, by=by, schedule=schedule.pk, changed=changed)
        else:
            AuditEntry.record("schedule.edit", schedule, by=by, schedule=schedule.pk, settings=told)
    return schedule


def remove(schedule: Schedule, *, by: User | str | None) -> None:
    """Take a schedule away; the jobs that it started stay."""
    with transaction.atomic():
        AuditEntry.record("schedule.remove", schedule, by=by, schedule=schedule.pk)
        schedule.delete()


def run_now(schedule: Schedule, *, by: User | str | None) -> Job | None:
    """Build now, whatever the time. None: there is nothing new to index, or no model; `last_outcome` says so."""
    return _run(schedule, _model_of(schedule), by=by)


def run_due(now: datetime | None = None) -> list[Job]:
    """Run what is due, each once however many schedulers look; returns the jobs started."""
    now = now or timezone.now()
    started = []
    for schedule in Schedule.objects.filter(enabled=True, due_at__gt=now):
        # Written by a clock that was ahead and has been set right since: it would wait as long as that was wrong.
        if (due_at := next_due(schedule, now)) is not None and schedule.due_at is not None and schedule.due_at > due_at:
            Schedule.objects.filter(pk=schedule.pk, due_at=schedule.due_at).update(due_at=due_at)
    for schedule in Schedule.objects.filter(enabled=True, due_at__lte=now):
        mine = Schedule.objects.filter(pk=schedule.pk, due_at=schedule.due_at)
        schedule.due_at = next_due(schedule, now)
        with transaction.atomic():  # a scheduler that dies here leaves it due
            if not mine.update(due_at=schedule.due_at):
                continue
            job = _run(schedule, _model_of(schedule), by=_name(schedule))
        if job is not None:
            started.append(job)
    return started


def model_made(model: ModelVersion) -> list[Job]:
    """Run the schedules that wait for a new model; returns the jobs started."""
    waiting = Schedule.objects.filter(enabled=True, trigger=Trigger.NEW_MODEL)
    jobs = [_run(schedule, model, by=_name(schedule)) for schedule in waiting]
    return [job for job in jobs if job is not None]


def next_due(schedule: Schedule, after: datetime) -> datetime | None:
    """When a schedule builds next after a moment; None: no time decides."""
    if schedule.trigger == Trigger.EVERY and schedule.hours:
        return after + timedelta(hours=schedule.hours)
    if schedule.trigger == Trigger.AT and schedule.at is not None:
        today = datetime.combine(after.date(), schedule.at, tzinfo=after.tzinfo)
        return today if today > after else today + timedelta(days=1)
    return None


def who_started(job: Job) -> Schedule | str:
    """The schedule that started a job, else the name of who or what did; "" where nobody wrote it down."""
    name = job.audit.filter(action="job.start").values_list("name", flat=True).first() or ""
    number = name.removeprefix(_NAMED)
    schedule = Schedule.objects.filter(pk=number).first() if number != name and number.isdecimal() else None
    return schedule or name


def _run(schedule: Schedule, model: ModelVersion | None, *, by: User | str | None) -> Job | None:
    """Start the build if there is something to build; write down what came of it."""
    job, outcome = _start(schedule, model, by)
    schedule.last_run_at, schedule.last_outcome, schedule.last_job = timezone.now(), outcome[:300], job
    schedule.save(update_fields=["last_run_at", "last_outcome", "last_job"])
    return job


def _start(schedule: Schedule, model: ModelVersion | None, by: User | str | None) -> tuple[Job | None, str]:
    """(the job, what came of it in a sentence)."""
    if model is None:
        return None, "No model is deployed, so there is none to build an index by."
    corpus = CorpusSnapshot.objects.filter(name=schedule.corpus_name).first()  # the newest
    if corpus is None:
        return None, f"There is no corpus called {schedule.corpus_name} any more."
    known = IndexGeneration.objects.filter(corpus=corpus, model__block_hash=model.block_hash).first()
    if known is not None:
        return None, f"Nothing new to index: {known.generation} is of the newest snapshot, and fits {model}."
    try:
        job = start(JobKind.INDEX, {"model": model.pk, "corpus": corpus.pk}, by=by)
    except AlreadyActive as active:
        return None, f"The same index is being built already by job {active.job.pk}."
    except RealmError as error:
        return None, str(error)
    return job, f"Building the index of {corpus.name} {corpus.snapshot_id} by {model}."


def _model_of(schedule: Schedule) -> ModelVersion | None:
    """The schedule's own model, else for a new model the newest, else the deployed one."""
    if schedule.model is not None:
        return schedule.model
    if schedule.trigger == Trigger.NEW_MODEL:
        return ModelVersion.objects.first()
    deployed = Deployment.active()
    return deployed.model if deployed else None


def _told(schedule: Schedule) -> dict[str, Any]:
    """What a person has said of a schedule, as the audit trail keeps it."""
    return {
        "corpus_name": schedule.corpus_name,
        "model": str(schedule.model or ""),
        "trigger": schedule.trigger,
        "hours": schedule.hours,
        "at": schedule.at and schedule.at.isoformat("minutes"),
        "enabled": schedule.enabled,
    }


def _name(schedule: Schedule) -> str:
    return f"{_NAMED}{schedule.pk}"
