"""Question sets: files of questions with answers, to train on or to measure by, never both."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Purpose(models.TextChoices):
    """The purpose of a question set. Models are never trained on questions that they are measured by."""

    LEARN = "learn", "to learn from"
    MEASURE = "measure", "to measure by"


class QuestionSet(models.Model):
    """One immutable file of questions (JSON lines)."""

    name = models.CharField(max_length=100, unique=True, help_text="The file's name without its ending.")
    purpose = models.CharField(max_length=10, choices=Purpose.choices)
    path = models.CharField(max_length=1000, help_text="File, absolute or relative to the data folder.")
    sha256 = models.CharField(max_length=64)
    questions = models.PositiveIntegerField(help_text="How many.")
    origin = models.CharField(max_length=200, blank=True, help_text="Where it came from, and its licence.")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        plural = "" if self.questions == 1 else "s"
        return f"{self.name} ({self.questions:,} question{plural}, {self.get_purpose_display()})"

    def drawn(self, sample: int) -> int:
        """The size of a sample; 0: the whole set, as of a sample of at least as many questions as there are."""
        return 0 if sample >= self.questions else sample
