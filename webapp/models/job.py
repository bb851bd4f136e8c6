"""Jobs: long work that a worker runs in a child process, and the record of how it went.

                    claim                     finish
    queued ───────────────────▶ running ───────────────────▶ succeeded | failed
      ▲  │                       │  ▲ │ request_stop
      │  │ request_stop          │  │ ▼            finish
      │  └──────────────▶ stopped│  stopping ──────────────▶ stopped (succeeded or failed if it ended first)
      │                          │
      ├── give_back, lease ran out; MAX_ATTEMPTS times without getting further: interrupted
      └── parts_ended ◀── running, held by its parts ◀── wait_for_parts

    failed | stopped | interrupted ── resume ──▶ queued (interrupted: by itself, too, after a while)
    interrupted ── request_stop ──▶ stopped

A state changes only through the methods below. Each is one conditional UPDATE that names the states (and the owner of
the lease) that it starts from: the caller that changed a row has won, for all others nothing happens. A worker holds a
job by a lease that it renews with every heartbeat; if a worker dies, the lease expires and `recover_expired` queues the
job again, which resumes from its last shard or checkpoint. A job that waits for its parts is held by these and by no
worker (`webapp/jobs/parts.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import IntegrityError, models, transaction
from django.db.models import F
from django.db.models.functions import Coalesce
from django.utils import timezone

from realm_core.tasks import JOBS
from webapp.models.job_states import ACTIVE, COMPANION_KINDS, FINISHED, HELD, RESUMABLE, JobState, Queue
from webapp.models.worker import TRAINING, DeviceLease

LOG_CHARACTERS: Final = 20_000  # at the end of a job's log that the row keeps; the whole log is in the run folder
MAX_ATTEMPTS: Final = 3  # claims without progress after which a lost worker counts as the job's own fault
MAX_INTERRUPTIONS: Final = 5  # automatic resumptions before a person is needed
RESUME_AFTER_S: Final = 300  # until the first automatic resumption; doubled each time
ITS_PARTS: Final = "its parts"  # the owner of a job that waits for them


class Job(models.Model):
    """One piece of long work.

    parameters: ids of the records that it works on and values of its settings, in the format of `webapp.kinds`.
    parent: the job that this one is a part of, such as a shard's index build, or a refresh's pre-training.
    progress: the process's last report (done, total, unit, rate, seconds_left, message, time), or {}.
    result: the outcome, or {}.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=30)  # one of `webapp.kinds`
    queue = models.CharField(max_length=10, choices=Queue.choices, default=Queue.DEFAULT)
    parameters = models.JSONField(default=dict, blank=True)
    fingerprint = models.CharField(
        max_length=64,
        blank=True,
        help_text="Of what it does: no two with the same one are active. Empty: not compared.",
    )
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, blank=True, related_name="parts")
    settings_of = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="The earlier job whose settings this one began with.",
    )
    pinned = models.BooleanField(default=False, help_text="Its run folder is never removed by retention.")
    state = models.CharField(max_length=20, choices=JobState.choices, default=JobState.QUEUED)
    lease_owner = models.CharField(max_length=200, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    attempt = models.PositiveSmallIntegerField(
        default=0, help_text="How often its work was begun since it was last started or resumed."
    )
    fruitless = models.PositiveSmallIntegerField(
        default=0, help_text="How many of these attempts, the last ones, got no further."
    )
    interruptions = models.PositiveSmallIntegerField(
        default=0, help_text="How often it was interrupted since a person last started it."
    )
    progress = models.JSONField(default=dict, blank=True)
    result = models.JSONField(default=dict, blank=True)
    error = models.TextField(blank=True, help_text="Why it failed, in a sentence.")
    log = models.TextField(blank=True, help_text="The end of what the process printed.")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    queued_at = models.DateTimeField(default=timezone.now, help_text="When it last began to wait for a worker.")
    sent_at = models.DateTimeField(null=True, blank=True, help_text="When a message last told the workers of it.")
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    ran_before = models.DurationField(default=timedelta, help_text="How long it ran before it was last resumed.")

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["-created_at"], name="job_created"),
            models.Index(fields=["state", "lease_expires_at"], name="job_state_lease"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["fingerprint"],
                condition=models.Q(state__in=ACTIVE) & ~models.Q(fingerprint=""),
                name="one_active_job_of_a_kind",
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} ({self.state})"

    def get_kind_display(self) -> str:
        """The kind's title; for a kind of an earlier version, its name."""
        return JOBS[self.kind].label() if self.kind in JOBS else self.kind

    @property
    def run_dir(self) -> Path:
        """Folder of the process's progress, metrics, log and result."""
        return Path(settings.REALM_DATA) / "runs" / str(self.pk)

    def records(self, name: str) -> list[int]:
        """The ids of the records that a parameter names, one or many; none if it is not given."""
        given = self.parameters.get(name)
        return given if isinstance(given, list) else [] if given is None else [given]

    @property
    def is_active(self) -> bool:
        """Whether it can still change without a person's action."""
        return self.state in ACTIVE

    @property
    def can_resume(self) -> bool:
        """Whether `resume` would queue it again."""
        return self.state in RESUMABLE

    @property
    def resumes_at(self) -> datetime | None:
        """When it resumes automatically; None: only on a person's request.

        A part resumes with its parent; one that runs beside its parent resumes automatically while that runs.
        """
        if self.state != JobState.INTERRUPTED or self.finished_at is None:
            return None
        if self.parent is not None:
            if self.kind not in COMPANION_KINDS or not self.parent.is_active:
                return None
        elif self.interruptions > MAX_INTERRUPTIONS:
            return None
        times = min(max(self.interruptions, 1), MAX_INTERRUPTIONS)
        return self.finished_at + timedelta(seconds=RESUME_AFTER_S * 2 ** (times - 1))

    # ---- for workers

    @classmethod
    def claim(
        cls, job_id: uuid.UUID | str, owner: str, lease_s: float, devices: Sequence[str] | None = None
    ) -> Job | None:
        """Take a queued job for `owner` (a unique name, such as host:pid:random).

        devices: those that it wants exclusively; it gets the ones that no other job holds. None: it wants none.
        Returns None if the job is not queued (claimed by another worker, stopped, or unknown), or if no device is free.
        """
        now = timezone.now()
        try:
            with transaction.atomic():
                won = cls.objects.filter(pk=job_id, state=JobState.QUEUED).update(
                    state=JobState.RUNNING,
                    lease_owner=owner,
                    lease_expires_at=now + timedelta(seconds=lease_s),
                    fruitless=F("fruitless") + 1,
                    started_at=Coalesce("started_at", now),  # a later claim continues the same run
                    finished_at=None,
                    error="",
                    result={},
                )
                if won and devices is not None and not _take(devices, cls.objects.get(pk=job_id)):
                    transaction.set_rollback(True)
                    return None
        except IntegrityError:  # another worker took a device at the same moment
            return None
        return cls.objects.get(pk=job_id) if won else None

    def begin(self, owner: str) -> bool:
        """Count an attempt, right before its process is started. False: `owner` holds the job no longer."""
        return self._changed(self._held_by(owner).update(attempt=F("attempt") + 1))

    def share(self, owner: str, devices: Sequence[str]) -> str:
        """The device with the fewest jobs, on which this job is registered.

        A device that a training holds is chosen last.
        """
        while True:
            try:
                with transaction.atomic():
                    device, place = _least_used(devices)
                    if self._held_by(owner).update(lease_owner=owner):  # a lost job is not registered
                        DeviceLease.objects.create(device=device, place=place, job=self)
                return device
            except IntegrityError:  # another job took that place at the same moment
                continue

    def heartbeat(
        self,
        owner: str,
        lease_s: float,
        *,
        progress: dict[str, Any] | None = None,
        log: str | None = None,
        got_further: bool = False,
    ) -> JobState | None:
        """Renew the lease, and record progress and the end of the log.

        got_further: than any attempt before, which resets the count of attempts without progress. Returns the state:
        RUNNING, or STOPPING if the process should be stopped. None: another worker holds the lease; kill the process
        and record nothing.
        """
        values: dict[str, Any] = {"lease_expires_at": timezone.now() + timedelta(seconds=lease_s)}
        if progress is not None:
            values["progress"] = progress
        if log is not None:
            values["log"] = _log_tail(log)
        if got_further:
            values |= {"fruitless": 1, "interruptions": 0}
        if not self._held_by(owner).update(**values):
            return None
        self.refresh_from_db()
        return JobState(self.state) if self.lease_owner == owner and self.state in HELD else None

    def finish(
        self,
        owner: str,
        state: JobState,
        *,
        result: dict[str, Any] | None = None,
        error: str = "",
        log: str | None = None,
        progress: dict[str, Any] | None = None,
    ) -> bool:
        """Record the end: SUCCEEDED, FAILED or STOPPED. False: `owner` no longer held the job."""
        if state not in FINISHED:
            raise ValueError(f"A job cannot finish as {state}.")
        values: dict[str, Any] = {
            "state": state,
            "result": result or {},
            "error": error,
            "finished_at": timezone.now(),
        }
        if state == JobState.INTERRUPTED:
            values["interruptions"] = F("interruptions") + 1
        if log is not None:
            values["log"] = _log_tail(log)
        if progress is not None:
            values["progress"] = progress
        return self._changed(self._let_go(self._held_by(owner), **values))

    def give_back(self, owner: str, *, fruitless: bool = False, error: str = "", log: str | None = None) -> bool:
        """Queue the job again: the worker is shutting down, its process was killed, or it could not start.

        fruitless: whether it counts as an attempt without progress. error: the reason, shown until the next attempt.
        A job that was asked to stop is stopped instead. False: `owner` no longer held it.
        """
        now = timezone.now()
        held = type(self).objects.filter(pk=self.pk, lease_owner=owner)
        values: dict[str, Any] = {"error": error} | ({} if log is None else {"log": _log_tail(log)})
        if not fruitless:
            values["fruitless"] = F("fruitless") - 1
        won = self._let_go(
            held.filter(state=JobState.RUNNING), state=JobState.QUEUED, queued_at=now, **values
        ) or self._let_go(held.filter(state=JobState.STOPPING), state=JobState.STOPPED, finished_at=now)
        return self._changed(won)

    # ---- for a parent that waits for its parts

    def wait_for_parts(self, owner: str) -> bool:
        """Leave the job running, held by its parts and no worker. False: it is to stop, or `owner` has lost it."""
        held = self._held_by(owner).filter(state=JobState.RUNNING)
        fruitless = F("fruitless") - 1  # handing out is no attempt
        return self._changed(held.update(lease_owner=ITS_PARTS, lease_expires_at=None, fruitless=fruitless))

    def parts_ended(self, state: JobState, *, error: str = "") -> bool:
        """No part is active any more: QUEUED if all have succeeded, else the state in which the parent ended.

        False: it does not wait for them, or is to stop and can be neither queued nor interrupted.
        """
        now = timezone.now()
        held = self._held_by(ITS_PARTS)
        if state == JobState.QUEUED:
            return self._changed(self._let_go(held.filter(state=JobState.RUNNING), state=state, queued_at=now))
        values: dict[str, Any] = {"state": state, "error": error, "finished_at": now}
        if state == JobState.INTERRUPTED:
            held = held.filter(state=JobState.RUNNING)
            values["interruptions"] = F("interruptions") + 1
        return self._changed(self._let_go(held, **values))

    def again(self) -> bool:
        """Queue a part again that has ended in any state. False: it is active."""
        return self._changed(self._queue_again(FINISHED))

    # ---- for people

    def request_stop(self) -> bool:
        """Stop it: at once if it is queued or interrupted, at the next safe point if it runs. False: too late."""
        return self._changed(self.stop_all(type(self).objects.filter(pk=self.pk)))

    @staticmethod
    def stop_all(jobs: models.QuerySet[Job]) -> int:
        """Stop those jobs that are queued, interrupted or running; returns their number."""
        stopped = {"state": JobState.STOPPED, "finished_at": timezone.now()}
        ended = jobs.filter(state__in=(JobState.QUEUED, JobState.INTERRUPTED)).update(**stopped)
        return ended + jobs.filter(state=JobState.RUNNING).update(state=JobState.STOPPING)

    def resume(self) -> bool:
        """Queue a failed, stopped or interrupted job again; it resumes after its finished work, and counts anew."""
        return self._changed(self._queue_again(RESUMABLE, attempt=0, interruptions=0))

    # ---- for the scheduler

    @classmethod
    def recover_expired(cls, now: datetime | None = None) -> list[Job]:
        """Take jobs from workers whose lease has expired; returns those that are queued again, to be sent."""
        now = now or timezone.now()
        requeued: list[Job] = []
        for job in cls.objects.filter(lease_expires_at__lt=now, state__in=HELD).defer("log"):
            # Selected by owner and state: it may have come back to life, or been asked to stop, since it was read.
            same = cls.objects.filter(pk=job.pk, state=job.state, lease_owner=job.lease_owner, lease_expires_at__lt=now)
            if job.state == JobState.STOPPING:
                job._let_go(same, state=JobState.STOPPED, finished_at=now)
            elif job.fruitless >= MAX_ATTEMPTS:
                error = f"The worker was lost {MAX_ATTEMPTS} times while it ran this."
                counted = F("interruptions") + 1
                job._let_go(same, state=JobState.INTERRUPTED, finished_at=now, error=error, interruptions=counted)
            elif job._changed(job._let_go(same, state=JobState.QUEUED, queued_at=now, error=_LOST)):
                requeued.append(job)
        return requeued

    @classmethod
    def resume_interrupted(cls, now: datetime | None = None) -> list[Job]:
        """Queue interrupted jobs again whose pause is over; returns them, to be sent."""
        now = now or timezone.now()
        resumed: list[Job] = []
        for job in cls.objects.filter(state=JobState.INTERRUPTED).defer("log"):
            if (resumes_at := job.resumes_at) is None or resumes_at > now:
                continue
            try:
                with transaction.atomic():
                    won = job._changed(job._queue_again((JobState.INTERRUPTED,)))
            except IntegrityError:  # an equal job is already queued or running
                continue
            if won:
                resumed.append(job)
        return resumed

    @classmethod
    def waiting(cls, silent_s: float, longest_s: float = 0.0, *, queue: str | None = None) -> list[Job]:
        """Queued jobs to be sent: no message since they were queued, or the last one `silent_s` seconds ago.

        longest_s: the pause between messages grows with the time that a job has waited, up to this.
        """
        now = timezone.now()
        jobs = cls.objects.filter(state=JobState.QUEUED).defer("log").order_by("queued_at")
        found: list[Job] = []
        for job in jobs if queue is None else jobs.filter(queue=queue):
            waited_s = -1.0 if job.sent_at is None else (job.sent_at - job.queued_at).total_seconds()
            silence = timedelta(seconds=max(silent_s, min(waited_s, longest_s)))
            # A later time than now was written by a clock that was ahead.
            if job.sent_at is None or waited_s < 0 or abs(now - job.sent_at) >= silence:
                found.append(job)
        return found

    def mark_sent(self, now: datetime) -> bool:
        """Record a message sent at this moment. False: the job is not queued any more, or a newer message was sent."""
        same = type(self).objects.filter(pk=self.pk, state=JobState.QUEUED, sent_at=self.sent_at)
        won = same.update(sent_at=now)
        if won:
            self.sent_at = now
        return won == 1

    @classmethod
    def unmark_sent(cls, jobs: Sequence[Job], now: datetime) -> None:
        """The messages of this moment could not be sent."""
        for start in range(0, len(jobs), _ROWS_AT_ONCE):
            keys = [job.pk for job in jobs[start : start + _ROWS_AT_ONCE]]
            cls.objects.filter(pk__in=keys, sent_at=now).update(sent_at=None)

    def _held_by(self, owner: str) -> models.QuerySet[Job]:
        return type(self).objects.filter(pk=self.pk, lease_owner=owner, state__in=HELD)

    def _let_go(self, held: models.QuerySet[Job], **values: Any) -> int:
        """Update the rows of `held` (this job or none), and release its lease and devices."""
        with transaction.atomic():
            won = held.update(**values, **_NO_LEASE)
            if won:
                DeviceLease.objects.filter(job=self.pk).delete()
        return won

    def _queue_again(self, ended: Sequence[JobState], **values: Any) -> int:
        return (
            type(self)
            .objects.filter(pk=self.pk, state__in=ended)
            .update(
                state=JobState.QUEUED,
                queued_at=timezone.now(),
                fruitless=0,
                error="",
                ran_before=F("ran_before") + Coalesce(_RAN, timedelta()),
                started_at=None,
                finished_at=None,
                **values,
            )
        )

    def _changed(self, rows: int) -> bool:
        """Refresh this object after an UPDATE; whether a row was changed."""
        self.refresh_from_db()
        return rows == 1


_ROWS_AT_ONCE: Final = 500  # databases limit the values of one statement
_LOST: Final = "The worker was lost while it ran this; another goes on with it."
_RAN: Final = models.ExpressionWrapper(F("finished_at") - F("started_at"), output_field=models.DurationField())
_NO_LEASE: Final[dict[str, Any]] = {"lease_owner": "", "lease_expires_at": None}


def _take(devices: Sequence[str], job: Job) -> list[DeviceLease]:
    """Lease the free ones of the devices to a job. IntegrityError if another job takes one at the same moment."""
    taken = DeviceLease.held()
    return DeviceLease.objects.bulk_create(
        [DeviceLease(device=device, job=job) for device in devices if device not in taken]
    )


def _least_used(devices: Sequence[str]) -> tuple[str, int]:
    """The device to share, and its first free place."""
    taken: dict[str, set[int]] = {device: set() for device in devices}
    for device, place in DeviceLease.objects.filter(device__in=devices).values_list("device", "place"):
        taken[device].add(place)
    chosen = min(devices, key=lambda device: (TRAINING in taken[device], len(taken[device])))
    return chosen, next(place for place in count(TRAINING + 1) if place not in taken[chosen])


def _log_tail(log: str) -> str:
    """The end of a log, without NUL characters, which PostgreSQL refuses."""
    return log.replace("\x00", "")[-LOG_CHARACTERS:]
