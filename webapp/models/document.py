"""Edits of a corpus: its states, the edited documents, and the ledger of changes.

Segments are on the disk (`realm_core/living/`); a row of `CorpusState` activates them. An edit has happened when the
row of its state is the current one; everything else about it is written in the same transaction.
"""

from __future__ import annotations

import uuid
from functools import cached_property
from typing import Final

from django.conf import settings
from django.db import models

from webapp.text import counted


class CorpusState(models.Model):
    """One state of the corpus above an index generation: the result of an edit, or the unchanged base before the first.

    Rows are history; the database allows one current row per generation, and none means the unchanged base. Two rows
    may have the same `state_id`: adding and removing a document leads back to the same state.
    """

    index = models.ForeignKey("webapp.IndexGeneration", on_delete=models.PROTECT, related_name="states")
    state_id = models.CharField(max_length=16, db_index=True, help_text="Hash of base, segments and tombstones.")
    state = models.JSONField(help_text="As realm_core.living.state.LivingState writes it.")
    has_edits = models.BooleanField(help_text="Whether it differs from the base.")
    is_current = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["index"], condition=models.Q(is_current=True), name="one_current_corpus_state"
            )
        ]

    def __str__(self) -> str:
        return f"{self.state_id} of {self.index.generation}"

    @property
    def measured_as(self) -> str:
        """Its name in evaluations; empty: nothing was edited."""
        return self.state_id if self.has_edits else ""


class DocumentStatus(models.TextChoices):
    """The state of a document."""

    CURRENT = "current", "current"
    CHANGED = "changed", "changed"
    REMOVED = "removed", "removed"
    PURGED = "purged", "purged"


BASE_FORMAT: Final = "base"  # of a document that came with the corpus
PURGED_TITLE: Final = "Purged document"  # of one of which nothing else is left
# Documents that are not in the corpus any more.
GONE: Final = (DocumentStatus.REMOVED, DocumentStatus.PURGED)


class Document(models.Model):
    """A document that an edit added, changed or removed. Unedited documents of the base have no row.

    The row of a removed one says what it was, and names its PDF, until it cannot be restored any more.
    """

    index = models.ForeignKey("webapp.IndexGeneration", on_delete=models.PROTECT, related_name="documents")
    document_id = models.CharField(max_length=200, help_text="Its id in the corpus.")
    title = models.CharField(max_length=512)
    format = models.CharField(max_length=20, help_text="What it was read from; `base`: it came with the corpus.")
    url = models.TextField(blank=True)
    licence = models.CharField(max_length=200, blank=True)
    attribution = models.TextField(blank=True)
    language = models.CharField(max_length=20, blank=True)
    date = models.DateField(null=True, blank=True, help_text="Its own, not that of the edit.")
    tags = models.JSONField(default=list, blank=True)
    collection = models.CharField(max_length=100, help_text="Its name.")
    blocks = models.PositiveIntegerField(help_text="As searched; 0 once it is removed.")
    content_hash = models.CharField(max_length=64, help_text="SHA-256 of title and text.")
    original = models.CharField(
        max_length=100, blank=True, help_text="Path of the PDF that it was read from, which is kept; empty: none."
    )
    warnings = models.JSONField(
        default=list, blank=True, help_text="Sentences about what was guessed or not read of what it was read from."
    )
    status = models.CharField(max_length=10, choices=DocumentStatus.choices, default=DocumentStatus.CURRENT)
    added_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    added_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["-changed_at", "-pk"]
        constraints = [models.UniqueConstraint(fields=["index", "document_id"], name="document_once_an_index")]
        indexes = [models.Index(fields=["index", "-changed_at"], name="document_index_changed")]

    def __str__(self) -> str:
        return f"{self.title} ({self.document_id})"


class ChangeKind(models.TextChoices):
    """What an edit did to a document."""

    ADDED = "added", "added"
    CHANGED = "changed", "changed"
    REMOVED = "removed", "removed"
    RESTORED = "restored", "restored"
    PURGED = "purged", "purged"


class CorpusChange(models.Model):
    """The ledger: what one edit did to one document. Rows never change."""

    kind = models.CharField(max_length=10, choices=ChangeKind.choices)
    document = models.ForeignKey(Document, on_delete=models.PROTECT, related_name="changes")
    before = models.ForeignKey(CorpusState, on_delete=models.PROTECT, related_name="+")
    after = models.ForeignKey(CorpusState, on_delete=models.PROTECT, related_name="changes")
    blocks_gone = models.JSONField(default=list, help_text="Ids of blocks that are searched no more.")
    blocks_new = models.JSONField(default=list, help_text="Ids of blocks that are searched since.")
    moved_from = models.CharField(max_length=100, blank=True, help_text="The collection before; empty: not another.")
    collection = models.CharField(max_length=100, blank=True, help_text="Where it was put; empty: it stayed.")
    readers = models.TextField(blank=True, help_text="Who could read the document then; empty: not told.")
    at = models.DateTimeField(auto_now_add=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["-at"], name="corpus_change_at")]

    def __str__(self) -> str:
        return f"{self.document} {self.kind}"

    @cached_property
    def removed_here(self) -> list[str]:
        """The blocks that were searched until this very change. A purge names all that the document ever had."""
        if self.kind != ChangeKind.PURGED:
            return list(self.blocks_gone)
        same_document = {
            "document__document_id": self.document.document_id,
            "document__index__corpus__name": self.document.index.corpus.name,
        }
        gone = set[str]()
        for earlier in CorpusChange.objects.filter(pk__lt=self.pk, **same_document).order_by("pk"):
            gone = (gone - set(earlier.blocks_new)) | set(earlier.blocks_gone)
        return [one for one in self.blocks_gone if one not in gone]


class Purge(models.Model):
    """The receipt of a purge: what was removed, and what still holds the documents.

    Rows do not change, but for `files`: those of a folder in `remaining` are added when it is removed.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    index = models.ForeignKey("webapp.IndexGeneration", on_delete=models.PROTECT, related_name="purges")
    document_ids = models.JSONField()
    blocks = models.PositiveIntegerField(help_text="Blocks that the documents had, in all their versions.")
    files = models.JSONField(help_text="Each removed file with its SHA-256, and the one that took its place.")
    remaining = models.JSONField(help_text="Folders of the base that still hold documents.")
    answers = models.PositiveIntegerField(help_text="Kept answers from which passages were taken.")
    answer_ids = models.JSONField(default=list, help_text="Their ids. Receipts that were kept before have none.")
    at = models.DateTimeField(auto_now_add=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["-at"]

    def __str__(self) -> str:
        return f"{counted(len(self.document_ids), 'document')} purged"


class FetchState(models.TextChoices):
    """The state of a fetch."""

    WAITING = "waiting", "waiting"
    FETCHED = "fetched", "fetched"
    FAILED = "failed", "failed"


class Fetch(models.Model):
    """An address that a worker fetches for an edit. Its content is in a file until the edit has read it.

    Also a file that was uploaded for a change which is being looked at; `url` is its name then.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    url = models.TextField()
    state = models.CharField(max_length=10, choices=FetchState.choices, default=FetchState.WAITING)
    reason = models.TextField(blank=True, help_text="Why it failed.")
    final_url = models.TextField(blank=True, help_text="Where it led.")
    content_type = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at"]
        verbose_name_plural = "fetches"

    def __str__(self) -> str:
        return f"{self.url} {self.state}"
