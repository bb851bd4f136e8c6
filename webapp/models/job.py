"""Jobs: long work that a worker does in a process of its own, and the record of how it went.

                    claim                     finish
    queued ───────────────────▶ running ───────────────────▶ succeeded | failed
      ▲  │                       │  ▲ │ request_stop
      │  │ request_stop          │  │ ▼            finish
      │  └──────────────▶ stopped│  stopping ──────────────▶ stopped (succeeded or failed if it ended first)
      │                          │
      └── give_back, lease ran out; the MAX_ATTEMPTSth time: interrupted

    failed | stopped | interrupted ── resume ──▶ queued

A state changes only through the methods below, each one conditional UPDATE that names the states (and the
owner of the lease) it starts from: whoever changed one row has won, everybody else sees nothing happen.
A worker holds a job by a lease that it renews with every heartbeat; when a worker dies, the lease runs
out and `recover_expired` queues the job again, where it goes on from its last shard or checkpoint.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import models
from django.utils import timezone

LOG_CHARACTERS: Final = 20_000  # of a job's log are kept in the row: its end; the whole is in the run folder
MAX_ATTEMPTS: Final = 3  # claims of one job before a lost worker is taken for the job's own fault


class JobState(models.TextChoices):
    """Where a job stands; the module's head shows how it gets there."""

    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    STOPPING = "stopping", "stopping"
    SUCCEEDED = "succeeded", "succeeded"
    FAILED = "failed", "failed"
    STOPPED = "stopped", "stopped"
    INTERRUPTED = "interrupted", "interrupted"


class JobKind(models.TextChoices):
    """What a job does; `webapp.kinds` says what each needs."""

    INGEST = "ingest", "ingest a corpus"
    WARMSTART = "warmstart", "make a first model"
    INDEX = "index", "build an index"
    INDEX_SHARD = "index-shard", "embed one shard of an index"
    ICT = "ict", "warm up the embedder (ICT)"
    MLM = "mlm", "warm up the encoder (MLM)"
    SPANS = "spans", "find salient spans"
    PRETRAIN = "pretrain", "pre-train"
    REFRESH = "refresh", "rebuild the index of a pre-training"
    FINETUNE = "finetune", "fine-tune"
    EVALUATE = "evaluate", "evaluate"
    ABLATE = "ablate", "ablate"
    EXPORT = "export", "export a model"


class Queue(models.TextChoices):
    """Which workers take a job."""

    DEFAULT = "default", "default"
    INDEX = "index", "index"
    TRAIN = "train", "train"


HELD: Final = (JobState.RUNNING, JobState.STOPPING)
ACTIVE: Final = (JobState.QUEUED, *HELD)
RESUMABLE: Final = (JobState.FAILED, JobState.STOPPED, JobState.INTERRUPTED)
FINISHED: Final = (JobState.SUCCEEDED, *RESUMABLE)


class Job(models.Model):
    """One piece of long work.

    parameters: ids of the records that it works on and values of its settings, as `webapp.kinds` reads them.
    parent: the job that this one is a part of: a shard's index build, a refresh's pre-training.
    progress: what the process last wrote (done, total, unit, rate, seconds_left, message, time), or {}.
    result: what came of it, or {}.
    """

    State = JobState
    Kind = JobKind
    Queue = Queue

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=30, choices=JobKind.choices)
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
    attempt = models.PositiveSmallIntegerField(default=0, help_text="How often a worker has claimed it.")
    progress = models.JSONField(default=dict, blank=True)
    result = models.JSONField(default=dict, blank=True)
    error = models.TextField(blank=True, help_text="Why it failed, in a sentence.")
    log = models.TextField(blank=True, help_text="The end of what the process printed.")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    queued_at = models.DateTimeField(default=timezone.now, help_text="When it last began to wait for a worker.")
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

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

    @property
    def run_dir(self) -> Path:
        """Folder where the process leaves progress, metrics, log and result."""
        return Path(settings.REALM_DATA) / "runs" / str(self.pk)

    @property
    def is_active(self) -> bool:
        """Whether something may still happen without a person's doing."""
        return self.state in ACTIVE

    @property
    def can_resume(self) -> bool:
        """Whether `resume` would queue it again."""
        return self.state in RESUMABLE

    # ---- a worker's side

    @classmethod
    def claim(cls, job_id: uuid.UUID | str, owner: str, lease_s: float) -> Job | None:
        """Take a queued job for `owner` (a name no other holder uses, such as host:pid:random).

        None: it is not queued (somebody else has it, it was stopped, or it never existed).
        """
        now = timezone.now()
        won = cls.objects.filter(pk=job_id, state=JobState.QUEUED).update(
            state=JobState.RUNNING,
            lease_owner=owner,
            lease_expires_at=now + timedelta(seconds=lease_s),
            attempt=models.F("attempt") + 1,
            started_at=now,
            finished_at=None,
            error="",
            result={},
        )
        return cls.objects.get(pk=job_id) if won else None

    def heartbeat(
        self, owner: str, lease_s: float, *, progress: dict[str, Any] | None = None, log: str | None = None
    ) -> JobState | None:
        """Renew the lease and record progress and the log's end.

        Returns the state: RUNNING, or STOPPING when the process should be stopped. None: the lease is
        somebody else's by now; kill the process and record nothing.
        """
        values: dict[str, Any] = {"lease_expires_at": timezone.now() + timedelta(seconds=lease_s)}
        if progress is not None:
            values["progress"] = progress
        if log is not None:
            values["log"] = _log_tail(log)
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
            **_NO_LEASE,
        }
        if log is not None:
            values["log"] = _log_tail(log)
        if progress is not None:
            values["progress"] = progress
        return self._changed(self._held_by(owner).update(**values))

    def give_back(self, owner: str, *, count_attempt: bool = False) -> bool:
        """Queue the job again: the worker is shutting down, or the process was killed (then the attempt counts).

        A job that was asked to stop is stopped instead. False: `owner` held it no longer.
        """
        now = timezone.now()
        held = type(self).objects.filter(pk=self.pk, lease_owner=owner)
        attempt = models.F("attempt") - (0 if count_attempt else 1)
        won = held.filter(state=JobState.RUNNING).update(
            state=JobState.QUEUED, queued_at=now, attempt=attempt, **_NO_LEASE
        ) or held.filter(state=JobState.STOPPING).update(state=JobState.STOPPED, finished_at=now, **_NO_LEASE)
        return self._changed(won)

    # ---- a person's side

    def request_stop(self) -> bool:
        """Stop it: at once while it waits, at the next safe point while it runs. False: too late."""
        rows = type(self).objects.filter(pk=self.pk)
        won = rows.filter(state=JobState.QUEUED).update(
            state=JobState.STOPPED, finished_at=timezone.now()
        ) or rows.filter(state=JobState.RUNNING).update(state=JobState.STOPPING)
        return self._changed(won)

    def resume(self) -> bool:
        """Queue a failed, stopped or interrupted job again; it goes on from what it had finished."""
        return self._changed(
            type(self)
            .objects.filter(pk=self.pk, state__in=RESUMABLE)
            .update(state=JobState.QUEUED, queued_at=timezone.now(), attempt=0, error="", finished_at=None)
        )

    # ---- the scheduler's side

    @classmethod
    def recover_expired(cls, now: datetime | None = None) -> list[Job]:
        """Take jobs from workers whose lease ran out; returns those that are queued again, to be sent anew."""
        now = now or timezone.now()
        lost = cls.objects.filter(lease_expires_at__lt=now)
        lost.filter(state=JobState.STOPPING).update(state=JobState.STOPPED, finished_at=now, **_NO_LEASE)
        lost.filter(state=JobState.RUNNING, attempt__gte=MAX_ATTEMPTS).update(
            state=JobState.INTERRUPTED,
            finished_at=now,
            error=f"The worker was lost {MAX_ATTEMPTS} times while it ran this.",
            **_NO_LEASE,
        )
        requeued: list[Job] = []
        for job in lost.filter(state=JobState.RUNNING):
            same = cls.objects.filter(pk=job.pk, state=JobState.RUNNING, lease_owner=job.lease_owner)
            if job._changed(
                same.filter(lease_expires_at__lt=now).update(state=JobState.QUEUED, queued_at=now, **_NO_LEASE)
            ):
                requeued.append(job)
        return requeued

    @classmethod
    def waiting_since(cls, before: datetime) -> list[Job]:
        """Jobs queued before `before` that nobody has claimed; their message may be lost, so send it again."""
        return list(cls.objects.filter(state=JobState.QUEUED, queued_at__lt=before).order_by("queued_at"))

    def _held_by(self, owner: str) -> models.QuerySet[Job]:
        return type(self).objects.filter(pk=self.pk, lease_owner=owner, state__in=HELD)

    def _changed(self, rows: int) -> bool:
        """Bring this object up to date after an UPDATE; whether it changed the row."""
        self.refresh_from_db()
        return rows == 1


_NO_LEASE: Final[dict[str, Any]] = {"lease_owner": "", "lease_expires_at": None}


def _log_tail(log: str) -> str:
    """The end of a log, without the zero characters that PostgreSQL refuses."""
    return log.replace("\x00", "")[-LOG_CHARACTERS:]


class JobMetric(models.Model):
    """One row of what a job measured while it ran (a line of its metrics.jsonl)."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="metrics")
    step = models.PositiveBigIntegerField()
    time = models.DateTimeField()
    values = models.JSONField(default=dict)

    class Meta:
        ordering = ["job", "step"]
        indexes = [models.Index(fields=["job", "step"], name="metric_job_step")]

    def __str__(self) -> str:
        return f"step {self.step}"
