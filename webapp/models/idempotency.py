"""Idempotency keys: a question sent twice is answered once, an edit of documents is made once."""

from __future__ import annotations

from django.db import models


class IdempotencyKey(models.Model):
    """One `Idempotency-Key` of one asker: a digest of the request, and its result.

    documents: pairs of an id and the version that the edit left; null for one that it removed.
    """

    owner = models.CharField(max_length=64, help_text="Who asked: an account, or a keyed hash of an address.")
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64, help_text="SHA-256 of what was sent.")
    answer = models.ForeignKey(
        "webapp.AskedAnswer",
        on_delete=models.CASCADE,
        null=True,
        related_name="+",
        help_text="Of a question; null: it is under way.",
    )
    documents = models.JSONField(null=True, help_text="Of an edit, the ids of its documents; null: it is under way.")
    since = models.DateTimeField(db_index=True, help_text="When the request with this key began.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "key"], name="idempotency_key_unique")]

    def __str__(self) -> str:
        return self.key
