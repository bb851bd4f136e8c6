"""Automatic work: rebuilds at given times, and retention of old work."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar, Final

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from webapp.models.audit import AuditEntry
from webapp.models.job_states import JobState

# The longest times, beyond which a date may have no year.
MOST_HOURS: Final = 8_784  # a leap year
MOST_DAYS: Final = 10_000
MOST_GENERATIONS: Final = 10_000
_EARLIER_RUNS: Final = 20  # kept of each schedule


class Trigger(models.TextChoices):
    """When a schedule runs."""

    EVERY = "every", "every so many hours"
    AT = "at", "at a time of day"
    NEW_MODEL = "new-model", "when a new model is made"


class Weekday(models.IntegerChoices):
    """Numbered as in datetime."""

    MONDAY = 0, "Monday"
    TUESDAY = 1, "Tuesday"
    WEDNESDAY = 2, "Wednesday"
    THURSDAY = 3, "Thursday"
    FRIDAY = 4, "Friday"
    SATURDAY = 5, "Saturday"
    SUNDAY = 6, "Sunday"


class ScheduleStage(models.TextChoices):
    """The stage of a schedule's `last_job`; `webapp.schedules.service` continues when that has ended."""

    REST = "", "resting"
    INGEST = "ingest", "reading the source again"
    INDEX = "index", "building the index"
    CHECK = "check", "measuring the new pair"
    CHECK_NOW = "check-now", "measuring the active deployment"


class Schedule(models.Model):
    """Ingest a corpus's source again, index it, check it and deploy it, or some of these steps."""

    corpus_name = models.CharField(max_length=100, help_text="Its newest snapshot is indexed.")
    ingest = models.BooleanField(default=False, help_text="Read its source again first.")
    questions = models.ForeignKey(
        "webapp.QuestionSet",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="Asked of the new index, and of the active deployment.",
    )
    deploy = models.BooleanField(default=False, help_text="Deploy it if it does not answer worse.")
    stage = models.CharField(
        max_length=10, choices=ScheduleStage.choices, default=ScheduleStage.REST, blank=True, editable=False
    )
    model = models.ForeignKey(
        "webapp.ModelVersion",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="schedules",
        help_text="Empty: the deployed model; when a new model is made: that one.",
    )
    trigger = models.CharField(max_length=10, choices=Trigger.choices)
    hours = models.PositiveSmallIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(MOST_HOURS)]
    )
    at = models.TimeField(null=True, blank=True, help_text="UTC")
    weekday = models.PositiveSmallIntegerField(
        choices=Weekday.choices, null=True, blank=True, help_text="Empty: daily."
    )
    enabled = models.BooleanField(default=True)
    due_at = models.DateTimeField(null=True, blank=True, help_text="When it builds next.")
    last_run_at = models.DateTimeField(null=True, blank=True)
    last_outcome = models.TextField(blank=True, help_text="What came of it, in a sentence.")
    last_failed = models.BooleanField(
        default=False, help_text="Whether the last run failed, or its index was to be deployed and was not."
    )
    last_job = models.ForeignKey("webapp.Job", on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    # The jobs and records of the present or last run: other jobs may ingest, fold and deploy the same corpus.
    ingested_by = models.ForeignKey(
        "webapp.Job", on_delete=models.SET_NULL, null=True, blank=True, editable=False, related_name="+"
    )
    corpus = models.ForeignKey(
        "webapp.CorpusSnapshot", on_delete=models.SET_NULL, null=True, blank=True, editable=False, related_name="+"
    )
    answering = models.ForeignKey(
        "webapp.Deployment",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        editable=False,
        related_name="+",
        help_text="The run's own latest deployment; before that, the one that was active when it began.",
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    AUDIT_NAME: ClassVar = "schedule "  # with its number

    class Meta:
        ordering = ["corpus_name", "pk"]

    def __str__(self) -> str:
        return f"Index of {self.corpus_name}, {self.when}"

    @property
    def audit_name(self) -> str:
        """The schedule's name in the audit trail."""
        return f"{self.AUDIT_NAME}{self.pk}"

    @classmethod
    def of_audit_names(cls, names: Iterable[str]) -> list[Schedule]:
        """The schedules with these names in the audit trail."""
        numbers = [name.removeprefix(cls.AUDIT_NAME) for name in names if name.startswith(cls.AUDIT_NAME)]
        return list(cls.objects.filter(pk__in=[number for number in numbers if number.isdecimal()]))

    @classmethod
    def beginnings(cls) -> models.QuerySet[AuditEntry]:
        """What the audit trail says of jobs that a schedule started, by itself or because a person ran it."""
        by_itself = models.Q(action="job.start", name__startswith=cls.AUDIT_NAME)
        return AuditEntry.objects.filter(by_itself | models.Q(action="schedule.run"))

    @property
    def is_under_way(self) -> bool:
        """Whether a job of its last run waits or runs, or has succeeded and the next step is still to come."""
        job = self.last_job
        goes_on = job is not None and (job.is_active or job.state == JobState.SUCCEEDED)
        return self.stage != ScheduleStage.REST and goes_on

    @property
    def runs(self) -> list[ScheduleRun]:
        """What its last run came to, or how far it is, and the runs that are kept from before; the newest first."""
        runs = list(self.earlier_runs.all())
        if self.last_run_at is not None:
            last = {"outcome": self.last_outcome, "failed": self.last_failed, "job_id": self.last_job_id}
            runs.append(ScheduleRun(schedule=self, at=self.last_run_at, **last))
        return sorted(runs, key=lambda run: run.at, reverse=True)

    def keep_last_run(self) -> None:
        """Keep what the last run came to, before another one begins."""
        if self.last_run_at is not None:
            self.keep_run(self.last_run_at, self.last_outcome, failed=self.last_failed, job_id=self.last_job_id)

    def keep_run(self, at: datetime, outcome: str, **more: Any) -> None:
        """Keep what a run came to that is not the last one, and forget those of long ago."""
        self.earlier_runs.create(at=at, outcome=outcome, **more)
        old = self.earlier_runs.values_list("pk", flat=True)[_EARLIER_RUNS:]
        self.earlier_runs.filter(pk__in=list(old)).delete()

    @property
    def when(self) -> str:
        """When it runs, in words."""
        if self.trigger == Trigger.EVERY:
            return f"every {self.hours} h"
        if self.trigger == Trigger.AT and self.at is not None:
            day = "daily" if self.weekday is None else f"every {Weekday(self.weekday).label}"
            return f"{day} at {self.at:%H:%M} UTC"
        return "when a new model is made"


class ScheduleRun(models.Model):
    """A run before a schedule's last one, or one that was not started because the run before was under way.

    The last run is in the schedule's own row: its steps change that.
    """

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="earlier_runs")
    at = models.DateTimeField(help_text="When it began.")
    outcome = models.TextField(blank=True, help_text="What came of it, in a sentence.")
    failed = models.BooleanField(
        default=False, help_text="Whether it failed, or its index was to be deployed and was not."
    )
    job = models.ForeignKey(
        "webapp.Job", on_delete=models.SET_NULL, null=True, blank=True, related_name="+", help_text="Its last job."
    )

    class Meta:
        ordering = ["-at", "-pk"]

    def __str__(self) -> str:
        return f"{self.at:%-d %b %Y, %H:%M}: {self.outcome}"


class RetentionRule(models.Model):
    """What is kept of old work; there is one row. Deployed, pinned or used artefacts are never removed."""

    enabled = models.BooleanField(default=False)
    generations = models.PositiveSmallIntegerField(
        default=3,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_GENERATIONS)],
        help_text="Index generations kept of each corpus, the newest.",
    )
    run_days = models.PositiveSmallIntegerField(
        default=30,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_DAYS)],
        help_text="Days that the run folder of a finished job is kept.",
    )
    answer_days = models.PositiveSmallIntegerField(
        default=365,
        validators=[MaxValueValidator(MOST_DAYS)],
        help_text="Days that questions asked without an account are kept, with their answers; 0: for ever.",
    )
    changed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.generations} generations, runs of {self.run_days} days" if self.enabled else "everything is kept"

    @classmethod
    def current(cls) -> RetentionRule:
        """The rule, created on first use."""
        return cls.objects.get_or_create(pk=1)[0]
