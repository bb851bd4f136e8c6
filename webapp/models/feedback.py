"""Feedback of askers on answers, and its review by curators."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models

if TYPE_CHECKING:
    from webapp.models.answer import AskedAnswer


class Review(models.TextChoices):
    """Whether feedback may be trained on."""

    WAITING = "waiting", "waiting"
    ACCEPTED = "accepted", "accepted"
    REFUSED = "refused", "refused"


class Feedback(models.Model):
    """One asker's feedback on one answer; new feedback replaces the row, which then needs a new review."""

    answer = models.ForeignKey("webapp.AskedAnswer", on_delete=models.CASCADE, related_name="feedback")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    session_key = models.CharField(
        max_length=40, blank=True, help_text="Who, when not logged in; empty as well: no longer known."
    )
    right = models.BooleanField(null=True, help_text="Whether the answer is right; null: not said.")
    better_answer = models.TextField(blank=True)
    block_id = models.CharField(max_length=64, blank=True, help_text="The block that is the right evidence.")
    changed_at = models.DateTimeField(auto_now=True)
    use = models.CharField(
        max_length=200, blank=True, help_text="Where the right answer stands, as it was found when this was accepted."
    )
    review = models.CharField(max_length=10, choices=Review.choices, default=Review.WAITING)
    reviewed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    reviewed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-changed_at", "-pk"]
        verbose_name_plural = "feedback"
        constraints = [
            models.UniqueConstraint(fields=["answer", "by"], name="feedback_once_by_user"),
            models.UniqueConstraint(
                fields=["answer", "session_key"],
                condition=models.Q(by=None) & ~models.Q(session_key=""),
                name="feedback_once_by_session",
            ),
        ]
        indexes = [models.Index(fields=["review", "-changed_at"], name="feedback_review_changed")]

    def __str__(self) -> str:
        said = {True: "right", False: "wrong", None: "not said"}[self.right]
        return f"{said}: {self.better_answer}" if self.better_answer else said

    @classmethod
    def follow_purge(cls, answer: AskedAnswer, removed: Collection[str], *, is_another: bool) -> None:
        """Update the feedback on an answer from which blocks were purged; what was accepted waits for a curator again.

        is_another: without these blocks the answer is a different one, which nobody has judged: the verdict is removed,
        and a better answer or a block that was named is kept.
        """
        said = cls.objects.filter(answer=answer)
        named = [one.pk for one in said.exclude(block_id="") if one.block_id in removed]
        said.filter(pk__in=named).update(block_id="")
        # `use` is emptied, because it may name the purged document.
        waits = {"review": Review.WAITING, "use": "", "reviewed_by": None, "reviewed_at": None}
        said.filter(review=Review.ACCEPTED).update(**waits)
        if is_another:
            said.update(right=None)
            said.filter(better_answer="", block_id="").delete()
