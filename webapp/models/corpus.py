"""Corpus snapshots: immutable sets of articles divided into blocks, and the salient spans that were found in them.

The rows point at folders of files.
"""

from __future__ import annotations

from django.db import models

from webapp.models.job import Job
from webapp.models.job_states import JobKind
from webapp.models.present import Present


class CorpusSnapshot(models.Model):
    """One ingested corpus, as in its manifest. The row remains when its files are removed, because answers name it."""

    name = models.CharField(max_length=100, help_text="What the corpus is called; many snapshots may share it.")
    snapshot_id = models.CharField(max_length=64, unique=True, help_text="Hash of the block ids in order.")
    path = models.CharField(max_length=1000, help_text="Folder, absolute or relative to the data folder.")
    source = models.CharField(max_length=200)
    language = models.CharField(max_length=20)
    articles = models.PositiveIntegerField()
    dictionary_entries = models.PositiveIntegerField(
        default=0, help_text="How many of its articles are entries of the dictionary, a line each."
    )
    blocks = models.PositiveIntegerField()
    share = models.FloatField(
        default=1.0, help_text="What part of its source it holds, by its manifest when it was recorded; 1: all of it."
    )
    licence = models.CharField(max_length=200, blank=True)
    attribution = models.TextField(blank=True)
    job = models.ForeignKey(
        "webapp.Job", on_delete=models.SET_NULL, null=True, blank=True, related_name="corpora", help_text="Made by."
    )
    removed_at = models.DateTimeField(null=True, blank=True, help_text="When its files were removed.")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = Present["CorpusSnapshot"]()
    every = models.Manager["CorpusSnapshot"]()

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.name} {self.snapshot_id} ({self.articles:,} articles, {self.blocks:,} blocks)"

    @staticmethod
    def latest_ingest(name: str) -> Job | None:
        """The latest job that ingested a corpus of this name: a schedule reads its source again."""
        return Job.objects.filter(kind=JobKind.INGEST, corpora__name=name).defer("log").first()


class SpanSet(models.Model):
    """The salient spans (names and dates) of one corpus snapshot, as one tagger found them; pre-training masks them."""

    corpus = models.ForeignKey(CorpusSnapshot, on_delete=models.PROTECT, related_name="span_sets")
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
