"""What happens by itself: rebuilds at given times, and what is kept of old work."""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models

_AUDIT_NAME: Final = "schedule "  # with its number


class Trigger(models.TextChoices):
    """When a schedule builds."""

    EVERY = "every", "every so many hours"
    AT = "at", "at a time of day"
    NEW_MODEL = "new-model", "when a new model is made"


class Weekday(models.IntegerChoices):
    """As datetime counts them."""

    MONDAY = 0, "Monday"
    TUESDAY = 1, "Tuesday"
    WEDNESDAY = 2, "Wednesday"
    THURSDAY = 3, "Thursday"
    FRIDAY = 4, "Friday"
    SATURDAY = 5, "Saturday"
    SUNDAY = 6, "Sunday"


class Stage(models.TextChoices):
    """What a schedule's `last_job` does for it; `webapp.schedules.service` goes on when that has ended."""

    REST = "", "resting"
    INGEST = "ingest", "reading the source again"
    INDEX = "index", "building the index"
    CHECK = "check", "asking it the questions"
    CHECK_NOW = "check-now", "asking what answers now the same questions"


class Schedule(models.Model):
    """Read a corpus's source again, index what is new, check it and deploy it: as much of that as is wanted."""

    corpus_name = models.CharField(max_length=100, help_text="Its newest snapshot is indexed.")
    ingest = models.BooleanField(default=False, help_text="Read its source again first.")
    questions = models.ForeignKey(
        "webapp.QuestionSet",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="Asked of the new index, and of what answers now.",
    )
    deploy = models.BooleanField(default=False, help_text="Deploy it if it does not answer worse.")
    stage = models.CharField(max_length=10, choices=Stage.choices, default=Stage.REST, blank=True, editable=False)
    model = models.ForeignKey(
        "webapp.ModelVersion",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="schedules",
        help_text="Empty: the deployed model; when a new model is made: that one.",
    )
    trigger = models.CharField(max_length=10, choices=Trigger.choices)
    hours = models.PositiveSmallIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])
    at = models.TimeField(null=True, blank=True, help_text="UTC")
    weekday = models.PositiveSmallIntegerField(
        choices=Weekday.choices, null=True, blank=True, help_text="Empty: daily."
    )
    enabled = models.BooleanField(default=True)
    due_at = models.DateTimeField(null=True, blank=True, help_text="When it builds next.")
    last_run_at = models.DateTimeField(null=True, blank=True)
    last_outcome = models.CharField(max_length=300, blank=True, help_text="What came of it, in a sentence.")
    last_job = models.ForeignKey("webapp.Job", on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["corpus_name", "pk"]

    def __str__(self) -> str:
        return f"Index of {self.corpus_name}, {self.when}"

    @property
    def audit_name(self) -> str:
        """What the audit trail calls it."""
        return f"{_AUDIT_NAME}{self.pk}"

    @classmethod
    def of_audit_name(cls, name: str) -> Schedule | None:
        """The schedule that the audit trail calls so."""
        number = name.removeprefix(_AUDIT_NAME)
        return cls.objects.filter(pk=number).first() if number != name and number.isdecimal() else None

    @property
    def when(self) -> str:
        """When it runs, in words."""
        if self.trigger == Trigger.EVERY:
            return f"every {self.hours} h"
        if self.trigger == Trigger.AT and self.at is not None:
            day = "daily" if self.weekday is None else f"every {Weekday(self.weekday).label}"
            return f"{day} at {self.at:%H:%M} UTC"
        return "when a new model is made"


class RetentionRule(models.Model):
    """What is kept of old work; there is one row. What is deployed, pinned or in use is never removed."""

    enabled = models.BooleanField(default=False)
    generations = models.PositiveSmallIntegerField(
        default=3, validators=[MinValueValidator(1)], help_text="Index generations kept of each corpus, the newest."
    )
    run_days = models.PositiveSmallIntegerField(
        default=30, validators=[MinValueValidator(1)], help_text="Days that the run folder of a finished job is kept."
    )
    answer_days = models.PositiveSmallIntegerField(
        default=365, help_text="Days that questions asked without an account are kept, with their answers; 0: for ever."
    )
    changed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.generations} generations, runs of {self.run_days} days" if self.enabled else "everything is kept"

    @classmethod
    def current(cls) -> RetentionRule:
        """The rule; made on first use."""
        return cls.objects.get_or_create(pk=1)[0]
