"""Automatic rebuilds: every so many hours, daily or weekly at a time, or when a new model is made.

    run_due ──▶ ingest, if wanted ──▶ index, if the snapshot has none ──▶ check, if wanted ──▶ deploy, if wanted

A corpus of which only a part was ingested, as `manage.py wikipedia` does first, is followed by a larger part
until all of it is in (`growth.py`). Each stage is a job. `advance`, which the scheduler calls, continues when the job
has ended; the schedule's row has the current stage, so a scheduler that dies loses nothing. An index is deployed only
if it is found to answer no worse: what needs a person's confirmation is left to a person. What was edited in the corpus
that answers is brought over first. A step is one transaction, without the check of a pair, which reads all its files.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from realm_core.corpus.tasks import PACKAGES
from realm_core.errors import RealmError
from webapp.deployments import service as deploying
from webapp.deployments.service import PairCheck
from webapp.evaluations.service import Candidate, measure_missing
from webapp.jobs.service import AlreadyActive, carried_over, start
from webapp.models import (
    AuditEntry,
    CorpusSnapshot,
    Deployment,
    IndexGeneration,
    Job,
    JobKind,
    JobState,
    ModelVersion,
    Purpose,
    Schedule,
    Trigger,
)
from webapp.models.schedule import ScheduleStage
from webapp.refusals import Missing
from webapp.schedules import growth
from webapp.serving.states import EditConflict

_WEEK_H: Final = 7 * 24
_WHEN: Final = ("trigger", "hours", "at", "weekday", "enabled")
_EDITED: Final = " What was edited since is searched above it."
_ATTEMPTS: Final = 3  # at one step, if what was checked for it changes at the same time


def save(schedule: Schedule, *, by: User | str | None) -> Schedule:
    """Record a new schedule, or changed settings of one, and compute when it is due. RealmError if it is not valid."""
    corpus = CorpusSnapshot.objects.filter(name=schedule.corpus_name).first()
    if corpus is None:
        raise RealmError(f"There is no corpus called {schedule.corpus_name}.")
    if schedule.trigger == Trigger.EVERY and not schedule.hours:
        raise RealmError("Enter the interval in hours.")
    if schedule.trigger == Trigger.AT and schedule.at is None:
        raise RealmError("Say at what time of day it shall build.")
    if schedule.deploy and schedule.questions is None:
        raise RealmError("Say by which questions it is checked before it is deployed.")
    if schedule.questions is not None and schedule.questions.purpose != Purpose.MEASURE:
        raise RealmError(f"{schedule.questions.name} is a set to train on; nothing is checked by it.")
    if schedule.trigger == Trigger.NEW_MODEL and schedule.model is not None:
        raise RealmError("For every new model the index is built by that model; name none.")
    if schedule.pk is None:
        schedule.created_by = by if isinstance(by, User) else None
    schedule.hours = schedule.hours if schedule.trigger == Trigger.EVERY else None
    schedule.at = schedule.at if schedule.trigger == Trigger.AT else None
    schedule.weekday = schedule.weekday if schedule.trigger == Trigger.AT else None
    schedule.ingest = schedule.ingest and schedule.trigger != Trigger.NEW_MODEL  # which indexes what there is
    if schedule.ingest:
        source_of(corpus)
    schedule.due_at = next_due(schedule, timezone.now()) if schedule.enabled else None
    with transaction.atomic():
        earlier = Schedule.objects.select_for_update().filter(pk=schedule.pk).first()
        after = _audited_settings(schedule)
        if earlier is not None:
            if all(getattr(earlier, name) == getattr(schedule, name) for name in _WHEN):
                schedule.due_at = earlier.due_at  # an edit of other fields does not postpone the next run
            schedule.save(update_fields=[*after, "due_at"])  # without the fields that a run under way writes
            before = _audited_settings(earlier)
            changed = {name: {"from": before[name], "to": after[name]} for name in after if after[name] != before[name]}
            if changed:
                AuditEntry.record("schedule.edit", schedule, by=by, schedule=schedule.pk, changed=changed)
        elif schedule.pk is not None:
            raise Missing("The schedule was removed meanwhile.")
        else:
            schedule.save()
            AuditEntry.record("schedule.edit", schedule, by=by, schedule=schedule.pk, settings=after)
    return schedule


def remove(schedule: Schedule, *, by: User | str | None) -> None:
    """Remove a schedule; the jobs that it started stay."""
    with transaction.atomic():
        AuditEntry.record("schedule.remove", schedule, by=by, schedule=schedule.pk)
        schedule.delete()


def follow(job: Job, corpus_name: str, *, deploy: bool) -> Schedule:
    """Index what an ingest makes once it has ended, and deploy that if wanted.

    deploy: a person wants it to answer, so it does unless it was measured to be worse than the active deployment; an
    ingest of a part is followed by one of a larger part, until all of it answers. It is a schedule that is switched
    off, and goes through its stages once; a person may switch it on.
    """
    return Schedule.objects.create(
        corpus_name=corpus_name,
        trigger=Trigger.EVERY,
        hours=_WEEK_H,
        enabled=False,
        deploy=deploy,
        stage=ScheduleStage.INGEST,
        last_job=job,
        ingested_by=job,
        answering=Deployment.active(),
        last_run_at=timezone.now(),
        last_outcome=f"Job {job.pk} ingests {corpus_name}.",
    )


def run_now(schedule: Schedule, *, by: User | str | None) -> Job | None:
    """Run it now, whatever the time. None: no job was started; the first of its `runs` says why."""
    job = _step(partial(_run, schedule, _model_of(schedule), by=by))
    outcome = schedule.runs[0].outcome if schedule.runs else ""
    AuditEntry.record("schedule.run", schedule, by=by, job=job, schedule=schedule.pk, outcome=outcome)
    return job


def run_due(now: datetime | None = None) -> list[Job]:
    """Run what is due, each once even with several schedulers; returns the jobs started."""
    now = now or timezone.now()
    started = []
    for schedule in Schedule.objects.filter(enabled=True, due_at__gt=now):
        # Written by a clock that was ahead and has been corrected: it would wait until then.
        if (due_at := next_due(schedule, now)) is not None and schedule.due_at is not None and schedule.due_at > due_at:
            Schedule.objects.filter(pk=schedule.pk, due_at=schedule.due_at).update(due_at=due_at)
    for schedule in Schedule.objects.filter(enabled=True, due_at__lte=now):
        mine = Schedule.objects.filter(pk=schedule.pk, due_at=schedule.due_at)
        schedule.due_at = next_due(schedule, now)
        job = _step(partial(_run_once, schedule, mine))  # a scheduler that dies here leaves it due
        if job is not None:
            started.append(job)
    return started


def _run_once(schedule: Schedule, mine: QuerySet[Schedule], ready: PairCheck | None) -> Job | None:
    """Run what is due, unless another scheduler was faster."""
    if not mine.update(due_at=schedule.due_at):
        return None
    return _run(schedule, _model_of(schedule), ready, by=schedule.audit_name)


def model_made(model: ModelVersion) -> list[Job]:
    """Run the schedules that wait for a new model; returns the jobs started."""
    waiting = Schedule.objects.filter(enabled=True, trigger=Trigger.NEW_MODEL)
    jobs = [_step(partial(_run, schedule, model, by=schedule.audit_name)) for schedule in waiting]
    return [job for job in jobs if job is not None]


def next_due(schedule: Schedule, after: datetime) -> datetime | None:
    """The next time after a moment at which a schedule runs; None: it does not run by time."""
    if schedule.trigger == Trigger.EVERY and schedule.hours:
        return after + timedelta(hours=schedule.hours)
    if schedule.trigger == Trigger.AT and schedule.at is not None:
        days = 0 if schedule.weekday is None else (schedule.weekday - after.weekday()) % 7
        first = datetime.combine(after.date() + timedelta(days=days), schedule.at, tzinfo=after.tzinfo)
        return first if first > after else first + timedelta(days=1 if schedule.weekday is None else 7)
    return None


def advance() -> list[Job]:
    """Continue schedules whose job has ended; returns the jobs started."""
    waiting = Schedule.objects.exclude(stage=ScheduleStage.REST).values_list("pk", flat=True)
    jobs = [_step(partial(_advance, pk)) for pk in waiting]
    return [job for job in jobs if job is not None]


def _advance(pk: int, ready: PairCheck | None) -> Job | None:
    schedule = Schedule.objects.select_for_update(of=("self",)).select_related("last_job").filter(pk=pk).first()
    if (
        schedule is None
        or schedule.stage == ScheduleStage.REST
        or (schedule.last_job is not None and schedule.last_job.is_active)
    ):
        return None
    if schedule.last_job is not None and schedule.last_job.state == JobState.INTERRUPTED:
        return None  # it resumes by itself, or on a person's request
    step = _after(schedule, ready)
    _note(schedule, step)
    return step.job


class _NotReady(Exception):
    """A step deploys a pair that was not checked, or that has changed since. unmeasured: as in `made_ready`."""

    def __init__(self, index: IndexGeneration, model: ModelVersion, by: str, *, unmeasured: bool = False) -> None:
        super().__init__(str(index))
        self.index, self.model, self.by, self.unmeasured = index, model, by, unmeasured


class _EditsWait(_NotReady):
    """A step measures an index that lacks what was edited in the corpus that answers."""


def _step(take: Callable[[PairCheck | None], Job | None]) -> Job | None:
    """Take a step of a run in a transaction, so that a process which dies has changed nothing; the job that it started.

    Where it deploys a pair, it is taken again when that was checked, outside of the transaction: reading, fetching and
    masking whole artefacts takes minutes, in which others write. So does bringing edits over to an index that is to be
    measured. If that changes all the time, the next call goes on.
    """
    ready: PairCheck | None = None
    for _ in range(_ATTEMPTS):
        try:
            with transaction.atomic():
                return take(ready)
        except _NotReady as pair:
            with suppress(EditConflict):
                ready = _prepared(pair)
    return None


def _prepared(pair: _NotReady) -> PairCheck | None:
    """The check of a pair that is to be deployed; None: the edits are brought over. With a refusal: they cannot be."""
    try:
        if not isinstance(pair, _EditsWait):
            return deploying.made_ready(pair.index, model=pair.model, by=pair.by, unmeasured=pair.unmeasured)
        deploying.bring_edits(pair.index, by=pair.by)
    except RealmError as error:
        refused = deploying.Finding("Edited documents", deploying.Verdict.BAD, str(error))
        return PairCheck(pair.model, pair.index, Deployment.active(), (refused,))
    return None


@dataclass(frozen=True)
class _NextStep:
    """The next step. says: in a sentence. job: started for `stage`; None: the run is over.

    failed: the run ends without what it is for, so a person should look.
    """

    says: str
    stage: ScheduleStage = ScheduleStage.REST
    job: Job | None = None
    failed: bool = False


def _run(
    schedule: Schedule, model: ModelVersion | None, ready: PairCheck | None, *, by: User | str | None
) -> Job | None:
    """Start a run of the schedule, unless one is under way; record its outcome. None: it has started no job."""
    # Read again, so that what the scheduler has written since is not overwritten.
    schedule.refresh_from_db(from_queryset=Schedule.objects.select_for_update(of=("self",)))
    one_at_a_time = schedule.trigger != Trigger.NEW_MODEL or schedule.questions is not None  # else one for each model
    if one_at_a_time and schedule.is_under_way:
        says = f"Not started: the run before is not over. It is {ScheduleStage(schedule.stage).label}."
        schedule.keep_run(timezone.now(), says, job=schedule.last_job)
        return None
    schedule.keep_last_run()
    schedule.ingested_by, schedule.corpus, schedule.answering = None, None, Deployment.active()
    schedule.stage, by_others = ScheduleStage.REST, False
    try:
        step = _begin(schedule, model, by, ready)
    except AlreadyActive as active:  # started by a person or another schedule; the later stages are still to come
        by_others, says = True, f"The same is being done already by job {active.job.pk}."
        step = _NextStep(says, ScheduleStage(active.job.kind), active.job)
        schedule.ingested_by = active.job if schedule.ingest else schedule.ingested_by
    except RealmError as error:
        step = _NextStep(str(error), failed=True)
    schedule.last_run_at, schedule.last_job = timezone.now(), None
    _note(schedule, step)
    return None if by_others else step.job


def _note(schedule: Schedule, step: _NextStep) -> None:
    schedule.stage, schedule.last_outcome, schedule.last_failed = step.stage, step.says, step.failed
    if step.job is not None:
        schedule.last_job = step.job
    about = ["ingested_by", "corpus", "answering"]
    schedule.save(update_fields=["stage", "last_run_at", "last_outcome", "last_failed", "last_job", *about])


def _begin(schedule: Schedule, model: ModelVersion | None, by: User | str | None, ready: PairCheck | None) -> _NextStep:
    if model is None:
        return _NextStep("No model is deployed, so there is none to build an index by.", failed=True)
    corpus = CorpusSnapshot.objects.filter(name=schedule.corpus_name).first()  # the newest
    if corpus is None:
        return _NextStep(f"There is no corpus called {schedule.corpus_name} any more.", failed=True)
    if schedule.ingest:
        schedule.ingested_by = job = start(JobKind.INGEST, source_of(corpus), by=by)
        return _NextStep(f"Reading the source of {corpus.name} again.", ScheduleStage.INGEST, job)
    schedule.corpus, schedule.ingested_by = corpus, CorpusSnapshot.latest_ingest(corpus.name)
    return _next_part_or_end(schedule, _index(schedule, corpus, model, by, ready), corpus, by)


def source_of(corpus: CorpusSnapshot) -> dict[str, Any]:
    """Parameters of an ingest that reads the corpus's source again. RealmError if the source is not known."""
    made_by = CorpusSnapshot.latest_ingest(corpus.name)
    if made_by is not None:
        return carried_over(made_by) | {"corpus_name": corpus.name}
    if corpus.source in PACKAGES:  # the default corpus, which no job made
        return {"source": corpus.source, "language": corpus.language, "corpus_name": corpus.name}
    raise RealmError(f"No job ingested {corpus.name}, so it is not known what to read again; ingest it by a job once.")


def _after(schedule: Schedule, ready: PairCheck | None) -> _NextStep:
    """The step after a stage's job has ended."""
    job, by, stage = schedule.last_job, schedule.audit_name, ScheduleStage(schedule.stage)
    if stage is ScheduleStage.INGEST and job is not None and job.state == JobState.SUCCEEDED:
        schedule.corpus = CorpusSnapshot.objects.filter(pk=job.result.get("corpus")).first()
    model, corpus = _model_of(schedule), schedule.corpus
    if job is not None and job.state != JobState.SUCCEEDED:  # it failed, or a person stopped it
        says = f"Job {job.pk} ({stage.label}) has {job.get_state_display()}. {job.error}".strip()
        return _NextStep(says, failed=job.state == JobState.FAILED)
    if job is None or model is None or corpus is None or corpus.removed_at is not None:
        return _NextStep("Its job, its model or its corpus has gone meanwhile.", failed=True)
    if _is_wanted(schedule) and (other := growth.deployed_by_others(schedule)) is not None:
        answers = f"deployment {other.pk}, which it did not make, answers by now"
        return _NextStep(f"It stopped before {corpus.name} {corpus.snapshot_id}: {answers}.")
    try:
        if stage is ScheduleStage.INGEST:
            step = _index(schedule, corpus, model, by, ready)
        elif (index := Candidate(model, corpus).index()) is not None:
            step = _check(schedule, index, model, by, ready)
        else:
            return _NextStep(f"The index of {corpus} has gone meanwhile.", failed=True)
        return _next_part_or_end(schedule, step, corpus, by)
    except AlreadyActive as active:  # a person started the next stage
        if active.job.kind == JobKind.INGEST:
            schedule.ingested_by = active.job
        return _NextStep(
            f"Job {active.job.pk} is already running the next stage.", ScheduleStage(active.job.kind), active.job
        )
    except RealmError as error:
        return _NextStep(str(error), failed=True)


def _index(
    schedule: Schedule, corpus: CorpusSnapshot, model: ModelVersion, by: User | str | None, ready: PairCheck | None
) -> _NextStep:
    active = Deployment.active()
    if _is_wanted(schedule) and not growth.is_larger(corpus, active):
        return _NextStep(f"{corpus.name} {corpus.snapshot_id} has no more articles than what answers.")
    if (known := Candidate(model, corpus).index()) is None:
        job = start(JobKind.INDEX, {"model": model.pk, "corpus": corpus.pk}, by=by)
        says = f"Building the index of {corpus.name} {corpus.snapshot_id} by {model}."
        return _NextStep(says, ScheduleStage.INDEX, job)
    answers = active is not None and (active.index_id, active.model_id) == (known.pk, model.pk)
    if answers or not (schedule.questions or schedule.deploy):
        says = f"Nothing new to index: {known.generation} is of the newest snapshot, and fits {model}."
        return _NextStep(says + (_EDITED if known.states.filter(is_current=True, has_edits=True).exists() else ""))
    return _check(schedule, known, model, by, ready)


def _check(
    schedule: Schedule, index: IndexGeneration, model: ModelVersion, by: User | str | None, ready: PairCheck | None
) -> _NextStep:
    """Ask the new pair, and then the active one, the questions that they lack; then deploy it.

    What was edited in the corpus that answers is brought over before: questions may be about it.
    """
    active = Deployment.active()
    checked = ready is not None and (ready.index, ready.model, ready.instead_of) == (index, model, active)
    if schedule.questions is not None and not checked:  # else it was measured, and later edits brought over since
        # Once in a run: otherwise constant edits would have it measured again without end.
        if schedule.stage not in (ScheduleStage.CHECK, ScheduleStage.CHECK_NOW) and deploying.edits_wait(index):
            raise _EditsWait(index, model, schedule.audit_name)
        candidates = [(ScheduleStage.CHECK, Candidate(model, index.corpus))]
        if active is not None:
            candidates.append((ScheduleStage.CHECK_NOW, Candidate(active.model, active.index.corpus)))
        for stage, candidate in candidates:
            _, started = measure_missing([candidate], schedule.questions, 0, by=by)
            if started:
                return _NextStep(f"{index.generation} is built. {stage.label.capitalize()}.", stage, started[0])
    if not schedule.deploy:
        refusal = ready.refusal if ready is not None and checked else ""
        says = f"{index.generation} is built and waits to be deployed. {refusal}"
        return _NextStep(says.strip(), failed=bool(refusal))
    wanted = _is_wanted(schedule)
    if wanted and not growth.is_larger(index.corpus, active):
        return _NextStep(f"{index.generation} is built, and has no more articles than what answers.")
    not_ready = _NotReady(index, model, schedule.audit_name, unmeasured=wanted)
    if ready is None or not checked:
        raise not_ready
    if not (ready.only_unmeasured if wanted else not (ready.refusal or ready.doubts)):
        says = ready.refusal or " ".join(ready.doubts)
        return _NextStep(f"{index.generation} is built, and was not deployed: {says}", failed=True)
    try:
        note = f"By {schedule.audit_name}"
        schedule.answering = deployment = deploying.deploy_ready(ready, by=schedule.audit_name, note=note)
    except deploying.OutOfDate:
        raise not_ready from None
    except deploying.DeployedAlready as error:  # by a person, while it was measured
        return _NextStep(f"{index.generation} is built. {error}")
    says = f"{index.generation} is built and deployed, as deployment {deployment.pk}. {ready.brought}"
    return _NextStep(says.strip())


def _is_wanted(schedule: Schedule) -> bool:
    """Whether a person wants what it builds to answer without a check: only `follow` leaves out the questions then."""
    return schedule.deploy and schedule.questions is None


def _next_part_or_end(schedule: Schedule, step: _NextStep, corpus: CorpusSnapshot, by: User | str | None) -> _NextStep:
    """A run's last step where its corpus is a part of a source that is wanted: a larger part is ingested instead."""
    ingest = schedule.ingested_by
    if step.job is not None or not _is_wanted(schedule) or corpus.share == 1 or ingest is None:
        return step
    parameters = carried_over(ingest)
    before = parameters.get("articles_at_most", 0)
    if not before:  # no limit: the whole source was read
        return step
    articles = growth.next_articles(before, corpus.share, Deployment.active())
    job = start(JobKind.INGEST, parameters | {"articles_at_most": articles}, by=by)
    schedule.ingested_by = job
    what = f"the first {articles:,} articles" if articles else "all of it"
    return _NextStep(f"{step.says} Now ingesting {what}.", ScheduleStage.INGEST, job)


def _model_of(schedule: Schedule) -> ModelVersion | None:
    """The schedule's own model, else for a new model the newest, else the deployed one."""
    if schedule.model is not None:
        return schedule.model
    if schedule.trigger == Trigger.NEW_MODEL:
        return ModelVersion.objects.first()
    deployed = Deployment.active()
    return deployed.model if deployed else None


def _audited_settings(schedule: Schedule) -> dict[str, Any]:
    """The settings of a schedule, for the audit trail."""
    return {
        "corpus_name": schedule.corpus_name,
        "model": str(schedule.model or ""),
        "trigger": schedule.trigger,
        "hours": schedule.hours,
        "at": schedule.at and schedule.at.isoformat("minutes"),
        "weekday": schedule.weekday,
        "ingest": schedule.ingest,
        "questions": str(schedule.questions or ""),
        "deploy": schedule.deploy,
        "enabled": schedule.enabled,
    }
