"""Feedback: what askers said about answers."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Feedback(models.Model):
    """One asker's word on one answer; saying it again changes the row."""

    answer = models.ForeignKey("webapp.AskedAnswer", on_delete=models.CASCADE, related_name="feedback")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    session_key = models.CharField(max_length=40, blank=True, help_text="Who, when not logged in.")
    right = models.BooleanField(null=True, help_text="Whether the answer is right; null: not said.")
    better_answer = models.TextField(blank=True)
    block_id = models.CharField(max_length=64, blank=True, help_text="The block that is the right evidence.")
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["-changed_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["answer", "by"], name="feedback_once_by_user"),
            models.UniqueConstraint(
                fields=["answer", "session_key"], condition=models.Q(by=None), name="feedback_once_by_session"
            ),
        ]

    def __str__(self) -> str:
        said = {True: "right", False: "wrong", None: "not said"}[self.right]
        return f"{said}: {self.better_answer}" if self.better_answer else said
