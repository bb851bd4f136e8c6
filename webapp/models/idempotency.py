"""Idempotency keys: a question that is sent twice is answered once."""

from __future__ import annotations

from django.db import models


class IdempotencyKey(models.Model):
    """One `Idempotency-Key` of one asker: what it was sent with, and the answer that it got."""

    owner = models.CharField(max_length=64, help_text="Who asked: an account, or a keyed hash of an address.")
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64, help_text="SHA-256 of what was asked.")
    answer = models.ForeignKey(
        "webapp.AskedAnswer",
        on_delete=models.CASCADE,
        null=True,
        related_name="+",
        help_text="Null: the question is under way.",
    )
    since = models.DateTimeField(db_index=True, help_text="When the question with this key began.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "key"], name="idempotency_key_unique")]

    def __str__(self) -> str:
        return self.key
