"""The tasks: running a job; and those of the scheduler, which recovers lost jobs and starts what is due."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from django.db import close_old_connections
from django.utils import timezone

from realm_core.errors import RealmError
from realm_core.runs.folder import RunFolder
from webapp.accounts.forgetting import forget_logins
from webapp.artefacts import removing, retention
from webapp.documents import folding, restoring, sweeping
from webapp.documents.fetching import TASK as FETCH
from webapp.documents.fetching import clear_away
from webapp.environment import envint
from webapp.jobs import parts
from webapp.jobs.queue import TASK, enqueue
from webapp.models import Job, JobState, Queue, RetentionRule
from webapp.models.job_states import HELD
from webapp.models.process import process_name
from webapp.operations import backups
from webapp.originals import service as originals
from webapp.purges import recording
from webapp.refusals import StateConflict
from webapp.request_id import set_job_id
from webapp.schedules import service as scheduling
from workers import devices
from workers.app import FETCHES, QUEUES, SLOTS, app
from workers.executions import EXECUTIONS, JobExecution
from workers.fetching import fetch_for
from workers.job_run import JobRun, Timing, shutting_down
from workers.reporting import Reporter, sign_of_life
from workers.run_files import note

log = logging.getLogger(__name__)

# A queued job that no worker has claimed for so long is sent again, because its message may have been lost with the
# broker; then at growing intervals, because mostly it just waits, and the broker keeps each message until it is taken.
RESEND_AFTER_S = 30.0
RESEND_AT_LEAST_EVERY_S = 600.0
_JUST_SENT_S = 5.0  # by another worker that started
_PASS_ON_AFTER_S = 2.0
_PASS_ON_AT_LEAST_EVERY_S = 60.0
_reporter = Reporter(QUEUES, SLOTS, uses_devices=not FETCHES)


@worker_ready.connect
def begin(**_details: Any) -> None:
    """Report this worker, and send every queued job again: its predecessor may have handed jobs back."""
    _reporter.start()
    with _own_connection():
        enqueue(*Job.waiting(_JUST_SENT_S))


@worker_shutting_down.connect
def hand_jobs_back(**_details: Any) -> None:
    """End every running job of this worker and leave it to the next worker."""
    shutting_down.set()


@worker_shutdown.connect
def end(**_details: Any) -> None:
    """Remove this worker's row."""
    _reporter.close()


@app.task(name=TASK)
def run_job(job_id: str, sent_at: str = "") -> None:
    """Claim the job and run it to its end; nothing happens if another worker has it, or the device that it needs.

    sent_at: when the message was sent, in ISO's notation.
    """
    set_job_id(job_id)  # for every line of the log; this thread's next task replaces it
    timing = _timing()
    owner = f"{process_name()}:{uuid.uuid4().hex[:8]}"
    job = None if shutting_down.is_set() else _claim(job_id, owner, timing.lease_s)
    if job is None:
        log.info("Job %s is not waiting for a worker, or for a device that is taken.", job_id)
        _pass_on(job_id, sent_at)
        return
    log.info("Job %s (%s), as %s", job.pk, job.kind, owner)
    JobRun(job, owner, timing).run()
    log.info("Job %s: %s", job.pk, job.state)
    if not job.is_active:
        parts.end_beside(job)
    parts.settle_whole_of(job)
    if job.queue == Queue.TRAIN:  # a device is free
        enqueue(*Job.waiting(0, queue=Queue.TRAIN))


@app.task(name=FETCH)
def fetch_address(fetch_id: str) -> None:
    """Fetch an address for an edit that waits for it; nothing happens if that edit has given up."""
    with _own_connection():
        fetch_for(fetch_id)


@app.task(name="workers.tidy")
def tidy() -> None:
    """Queue jobs of lost workers again, resume interrupted ones, send what seems to be lost, and report."""
    with _own_connection():
        _doubt_long_leases()
        for job in Job.recover_expired():
            log.warning("Job %s lost its worker and is queued again.", job.pk)
            note(RunFolder(job.run_dir), job.error)
            enqueue(job)
        for job in Job.resume_interrupted():
            log.warning("Job %s was interrupted and resumes.", job.pk)
            enqueue(job)
        parts.repair()
        clear_away()
        enqueue(*Job.waiting(RESEND_AFTER_S, RESEND_AT_LEAST_EVERY_S))
        sign_of_life()  # last, so that a scheduler that fails above does not report itself


def _doubt_long_leases() -> None:
    """Shorten leases written by a clock that was ahead and has been corrected: living workers renew within seconds."""
    now, lease = timezone.now(), timedelta(seconds=_timing().lease_s)
    held_for_long = Job.objects.filter(state__in=HELD, lease_expires_at__gt=now + 2 * lease)
    if held_for_long.update(lease_expires_at=now + lease):
        log.warning("A lease reached far into the future: a clock was ahead.")


@app.task(name="workers.run_schedules")
def run_schedules() -> None:
    """Start what is due, and continue what was started."""
    with _own_connection():
        for job in [*scheduling.advance(), *scheduling.run_due()]:
            log.info("Job %s was started by its schedule.", job.pk)


@app.task(name="workers.fold_edits")
def fold_edits() -> None:
    """Start the fold of edited documents, if it is worth it."""
    with _own_connection():
        try:
            job = folding.start_if_due()
        except (RealmError, StateConflict) as error:  # damaged files, or a person was faster
            log.info("Nothing is folded: %s", error)
            return
        if job is not None:
            log.info("Job %s folds the edits of documents.", job.pk)


@app.task(name="workers.retain")
def retain() -> None:
    """Remove what the retention rule does not keep: old questions, and old work if the rule is enabled; old records of
    logins and ended sessions; what folds have superseded; segments that nothing needs; PDFs of removed documents
    that cannot be restored any more; what killed backups left; and
    purged passages from answers that were being read while the purge was committed."""
    with _own_connection():
        if cut := recording.cut_purged():
            log.info("Purged passages were taken out of %d answers.", cut)
        if forgotten := retention.forget_answers(by="retention"):
            log.info("Removed: %d questions that were asked without an account.", forgotten)
        if ended := forget_logins():
            log.info("Removed: %d old records of logins and ended sessions.", ended)
        removals: list[Callable[[], Iterable[object] | None]] = [
            retention.finish,
            partial(removing.remove_superseded, by="retention"),
            partial(sweeping.sweep, by="retention"),
            restoring.forget_originals,
            originals.sweep,
            backups.clear_away,
        ]
        if RetentionRule.current().enabled:
            removals.append(partial(retention.remove, by="retention"))
        for remove in removals:
            try:
                for name in remove() or ():
                    log.info("Removed: %s", name)
            except RealmError as error:  # a backup is being written, for one: the next time tries this again
                log.info("Nothing is removed: %s", error)


def _timing() -> Timing:
    return Timing.for_lease(envint("JOB_LEASE_S", 60, minimum=1))


def _claim(job_id: str, owner: str, lease_s: float) -> Job | None:
    """The job, with its exclusive devices if it is a training."""
    job = Job.objects.filter(pk=job_id).defer("log").first()
    if job is None or job.queue != Queue.TRAIN:
        return Job.claim(job_id, owner, lease_s)
    wanted = list(devices.own())
    kind = EXECUTIONS.get(job.kind)
    if kind is not None and len(wanted) > 1:
        if not kind.distributed:
            wanted = _first_free(wanted, kind.devices)
        elif _has_builder(kind, job) and (Queue.INDEX in QUEUES or devices.builds_indexes_here()):
            wanted = wanted[:-1]  # the last is for the builder of its index
    return Job.claim(job_id, owner, lease_s, [devices.leased_as(device) for device in wanted])


def _has_builder(kind: JobExecution, job: Job) -> bool:
    try:
        return bool(kind.beside(job))
    except RealmError:  # its inputs were removed: it is claimed, and fails with that message
        return False


def _pass_on(job_id: str, sent_at: str) -> None:
    """Send a training again that finds no device here, as long as another worker may have one for it.

    Only the newest message is passed on, at growing intervals, so that only one circulates.
    """
    job = Job.objects.filter(pk=job_id, queue=Queue.TRAIN, state=JobState.QUEUED).defer("log").first()
    if job is None or job.sent_at is None or job.sent_at.isoformat() != sent_at or not devices.free_elsewhere():
        return
    waited_s = (job.sent_at - job.queued_at).total_seconds()
    enqueue(job, delay_s=min(max(_PASS_ON_AFTER_S, waited_s), _PASS_ON_AT_LEAST_EVERY_S))


def _first_free(wanted: list[str], count: int) -> list[str]:
    """The first `count` devices."""
    free = devices.not_leased(wanted)
    return (free or wanted)[:count]


@contextmanager
def _own_connection() -> Iterator[None]:
    """Start and end with a working connection to the database, or none."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()
