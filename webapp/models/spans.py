"""Salient spans: the names and dates of a corpus that pre-training masks."""

from __future__ import annotations

from django.db import models


class SpanSet(models.Model):
    """The salient spans of one corpus snapshot, as one tagger found them."""

    corpus = models.ForeignKey("webapp.CorpusSnapshot", on_delete=models.PROTECT, related_name="span_sets")
    path = models.CharField(max_length=1000, unique=True, help_text="Folder, absolute or relative to the data folder.")
    tagger = models.CharField(max_length=200)
    spans = models.PositiveIntegerField()
    blocks = models.PositiveIntegerField(help_text="How many blocks were looked at.")
    job = models.ForeignKey("webapp.Job", on_delete=models.SET_NULL, null=True, blank=True, related_name="span_sets")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.tagger} on {self.corpus.name} {self.corpus.snapshot_id} ({self.spans:,} spans)"
