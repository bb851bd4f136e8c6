"""One attempt at a job: start its process, watch it, record the result.

The loop of `JobRun._watch` renews the lease and reads from the same row whether the job was asked to stop. How the
process ends decides what is recorded:

    result and status 0        succeeded
    status 2                   failed, with the sentence that the process gave, or that documents were purged meanwhile
    the same, out of date      queued again: what it worked on was changed before its result was recorded
    asked to stop, or status 3 stopped
    no longer needed           succeeded: a part that runs as long as its parent
    this worker shuts down     queued again; the attempt does not count as one without progress
    killed by a signal         queued again; at the MAX_ATTEMPTSth time without progress: interrupted
    lease lost                 nothing: another worker holds the job
    anything else              failed; it is a bug, and the log shows it

Several processes under torchrun end as the one of them that was the cause (`realm_core/training/ranks.py`). What runs
beside its parent never fails, for the parent goes on and needs it: it is interrupted, and begins again after a while.
"""

from __future__ import annotations

import enum
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, transaction

from realm_core.errors import EXIT_REFUSED, EXIT_STOPPED, RealmError
from realm_core.files import remove_folder
from realm_core.living.tasks import COPY
from realm_core.runs.processes import EXIT_LOCKED, ask_to_end, describe_end, end, start_in, under_torchrun
from webapp.jobs import parts
from webapp.jobs.queue import enqueue
from webapp.models import DeviceLease, Job, JobState, Queue
from webapp.models.job import MAX_ATTEMPTS
from webapp.models.job_states import COMPANION_KINDS
from workers import devices
from workers.executions import EXECUTIONS, JobExecution, RunAgain
from workers.refusal import TOP
from workers.run_files import RunFiles, note

log = logging.getLogger(__name__)

_FULL_BYTES: Final = 1 << 20  # what is free of a disk that counts as full
_STOPPED_WITH_WORKER: Final = "It was stopped with the service, and goes on when that starts again."

shutting_down = threading.Event()  # set once, when this worker is asked to end


@dataclass(frozen=True)
class Timing:
    """How often things happen, in seconds.

    lease_s: how long after its last sign of life a worker is taken for dead.
    beat_s:  between heartbeats; well below the lease.
    look_s:  between looks at the process.
    grace_s: from SIGTERM to SIGKILL; torchrun gives its processes less.
    stop_s:  the same where a person stops the job: a step of training may take half a minute, and is lost if killed.
    """

    lease_s: float
    beat_s: float
    look_s: float = 0.25
    grace_s: float = 8.0
    stop_s: float = 120.0

    @classmethod
    def for_lease(cls, lease_s: float) -> Timing:
        """Heartbeats every two seconds, more often under a short lease."""
        return cls(lease_s, beat_s=min(2.0, lease_s / 5))


class Reason(enum.Enum):
    """Why the process was made to end."""

    REQUESTED = "a stop was requested"
    NOT_NEEDED = "what it is a part of is over"
    SHUTDOWN = "the worker is ending"
    LEASE_LOST = "another worker has the lease"


class JobRun:
    """One attempt at `job`, which `owner` has claimed."""

    def __init__(self, job: Job, owner: str, timing: Timing) -> None:
        self._job = job
        self._owner = owner
        self._timing = timing
        self._beat_at = self._beat_confirmed_at = time.monotonic()

    def run(self) -> None:
        """Do it, and record how it ended."""
        try:
            self._run()
        except RealmError as error:
            self._job.finish(self._owner, self._failed, error=str(error))
        except (OperationalError, InterfaceError):
            # The row stays as it is; when the lease has run out the scheduler queues the job again.
            close_old_connections()
            log.exception("Job %s: how it ended could not be recorded.", self._job.pk)
        except Exception:
            self._job.finish(self._owner, self._failed, error="An error inside the worker; its log shows it.")
            raise

    def _run(self) -> None:
        if self._job.kind not in EXECUTIONS:
            raise RealmError(f"This worker knows no kind of job called “{self._job.kind}”.")
        kind = EXECUTIONS[self._job.kind]
        if not parts.is_needed(self._job):
            self._job.finish(self._owner, JobState.SUCCEEDED)
            return
        if (made := kind.made(self._job)) is not None:
            self._succeed(kind, made)
            return
        turn = parts.wait_for(self._job, self._owner, kind.before(self._job))
        if turn is parts.Readiness.LOST:
            self._job.give_back(self._owner)  # which stops it, if it is still this worker's
        if turn is not parts.Readiness.READY or not self._job.begin(self._owner):
            return
        log.info("Job %s (%s), attempt %d", self._job.pk, self._job.kind, self._job.attempt)
        parts.run_beside(self._job, kind.beside(self._job))
        own = self._devices()
        several = len(own) if kind.distributed else 1
        command = [sys.executable, "-m", *kind.command(self._job), f"--run={self._job.run_dir}"]
        try:
            files = RunFiles(self._job)
            process = start_in(
                files.folder,
                command if several == 1 else under_torchrun(several, command, files.folder.lock_file),
                environment={**os.environ, **devices.environment(own)},
                folder=TOP,
                nice=settings.JOB_NICENESS + kind.yields,
            )
        except OSError as error:
            raise RealmError(f"The run folder {self._job.run_dir} cannot be written: {error.strerror}.") from error
        try:
            reason = self._watch(process, files)
        finally:
            status = end(process, until=0)  # also helpers that outlived their leader
        if reason is Reason.LEASE_LOST:
            log.warning("Job %s: the lease was lost, its process was killed.", self._job.pk)
            return
        if status != EXIT_LOCKED:
            remove_folder(self._job.run_dir / COPY)  # left by a killed process; a later purge would not find it
        self._insist(files.copy_metrics)
        self._insist(lambda: self._record(status, reason, files, several))

    @property
    def _failed(self) -> JobState:
        return JobState.INTERRUPTED if self._job.kind in COMPANION_KINDS else JobState.FAILED

    def _devices(self) -> list[str]:
        """The devices of the job: a training's own; for another job one, which it shares."""
        if self._job.queue == Queue.TRAIN:
            held = DeviceLease.objects.filter(job=self._job).values_list("device", flat=True)
            return [devices.device_of(lease) for lease in held]
        shared = self._job.share(self._owner, [devices.leased_as(device) for device in devices.own()])
        return [devices.device_of(shared)]

    # ---- while it runs

    def _watch(self, process: subprocess.Popen[bytes], files: RunFiles) -> Reason | None:
        """Return when the process has ended, or must be killed now; the reason if it was made to end."""
        reason: Reason | None = None
        kill_at = float("inf")
        while process.poll() is None:
            now = time.monotonic()
            if now >= kill_at:
                return reason
            asked = self._heartbeat(files) if now - self._beat_at >= self._timing.beat_s else None
            if asked is Reason.LEASE_LOST:
                return asked
            if shutting_down.is_set():
                asked = asked or Reason.SHUTDOWN
            if asked is not None and reason is None:
                log.info("Job %s is made to end: %s.", self._job.pk, asked.value)
                ask_to_end(process)
                reason = asked
            if asked is not None:
                patient = asked is Reason.REQUESTED and not shutting_down.is_set()
                kill_at = min(kill_at, now + (self._timing.stop_s if patient else self._timing.grace_s))
            time.sleep(self._timing.look_s)
        return reason

    def _heartbeat(self, files: RunFiles) -> Reason | None:
        """Renew the lease, copy what is new; says whether the process should end.

        A database that does not answer is borne as long as the lease holds.
        """
        self._beat_at = time.monotonic()
        try:
            state = self._job.heartbeat(
                self._owner,
                self._timing.lease_s,
                progress=files.folder.progress(),
                log=files.log_tail(),
                got_further=files.got_further(),
            )
            if state is None:
                return Reason.LEASE_LOST
            files.copy_metrics()
            parts.settle_whole_of(self._job)
            needed = parts.is_needed(self._job)
        except (OperationalError, InterfaceError) as error:
            log.warning("Job %s: no heartbeat, the database does not answer: %s", self._job.pk, error)
            close_old_connections()
            lease_over = time.monotonic() - self._beat_confirmed_at > self._timing.lease_s
            return Reason.LEASE_LOST if lease_over else None
        self._beat_confirmed_at = self._beat_at
        if state is JobState.STOPPING:
            return Reason.REQUESTED
        return None if needed else Reason.NOT_NEEDED

    # ---- when it has ended

    def _insist(self, step: Callable[[], None]) -> None:
        """Do it, unless the lease, which it renews, is lost; where the database does not answer, again and again."""
        while True:
            try:
                if time.monotonic() - self._beat_at >= self._timing.beat_s:
                    if self._job.heartbeat(self._owner, self._timing.lease_s) is None:
                        return None  # the worker that has the job by now reads the same files
                    self._beat_at = self._beat_confirmed_at = time.monotonic()
                return step()
            except (OperationalError, InterfaceError) as error:
                close_old_connections()
                if time.monotonic() - self._beat_confirmed_at > self._timing.lease_s:
                    raise
                log.warning("Job %s: its end is not recorded yet, the database: %s", self._job.pk, error)
                time.sleep(self._timing.beat_s)

    def _record(self, status: int, reason: Reason | None, files: RunFiles, several: int) -> None:
        result = files.folder.result()
        if status == 0 and result is not None:
            self._succeed(EXECUTIONS[self._job.kind], result, files)
        elif reason is Reason.NOT_NEEDED:
            self._finish(JobState.SUCCEEDED, files)
        elif reason is Reason.REQUESTED:
            self._finish(JobState.STOPPED, files)
        elif reason is Reason.SHUTDOWN:
            # Not sent: this worker might receive the message itself. The next one that starts sends it.
            note(files.folder, _STOPPED_WITH_WORKER)
            self._job.give_back(self._owner, error=_STOPPED_WITH_WORKER, log=files.log_tail())
        elif status == EXIT_STOPPED:
            self._finish(JobState.STOPPED, files)
        elif status == EXIT_LOCKED:
            # The process of a worker that lost its lease still works there; the scheduler sends the job again.
            self._job.give_back(self._owner)
        elif status < 0 and ((further := files.got_further()) or self._job.fruitless < MAX_ATTEMPTS):
            ended = f"Its process ended {describe_end(status)} in attempt {self._job.attempt}"
            text = f"{ended}; another one goes on from what is kept."
            log.warning("Job %s: %s", self._job.pk, text)
            note(files.folder, text)
            back = self._job.give_back(self._owner, fruitless=not further, error=text, log=files.log_tail())
            if back and self._job.state == JobState.QUEUED:
                enqueue(self._job)
        elif status < 0:
            text = (
                f"Its process ended {describe_end(status)} {MAX_ATTEMPTS} times without getting further; "
                "is there enough memory?"
            )
            note(files.folder, text)
            self._finish(JobState.INTERRUPTED, files, error=text)
        elif status == EXIT_REFUSED:
            self._refused(files, several)
        else:
            text = f"The process ended {describe_end(status)}; the end of its log shows where."
            if not files.log_tail().strip():
                text = self._full_disk() or text
            self._finish(self._failed, files, error=text)

    def _refused(self, files: RunFiles, several: int) -> None:
        try:
            purged = EXECUTIONS[self._job.kind].refused(self._job)
        except RunAgain as reason:
            self._again(reason)
            return
        said = purged or files.error_sentence() or self._full_disk() or "It failed without saying why."
        if several > 1:  # the others speak, too
            said = said.splitlines()[0]
        self._finish(self._failed, files, error=said)

    def _again(self, reason: RunAgain) -> None:
        log.info("Job %s is run again: %s", self._job.pk, reason)
        if self._job.give_back(self._owner) and self._job.state == JobState.QUEUED:
            enqueue(self._job)

    def _full_disk(self) -> str:
        """Why a process could not even write its log, or ""."""
        folder = self._job.run_dir
        if shutil.disk_usage(folder).free >= _FULL_BYTES:
            return ""
        return f"The disk that holds {folder} is full. Free some of it, then start this again."

    def _succeed(self, kind: JobExecution, result: dict[str, Any], files: RunFiles | None = None) -> None:
        """Make the records and end the job, both or neither."""
        try:
            with transaction.atomic():
                kept = kind.record(self._job, result)
                if not self._finish(JobState.SUCCEEDED, files, result=kept):
                    transaction.set_rollback(True)  # another worker has the job, and will record the same
        except RunAgain as reason:
            self._again(reason)

    def _finish(
        self, state: JobState, files: RunFiles | None, *, result: dict[str, Any] | None = None, error: str = ""
    ) -> bool:
        log_tail, progress = (files.log_tail(), files.final_progress()) if files else (None, None)
        return self._job.finish(self._owner, state, result=result, error=error, log=log_tail, progress=progress)
