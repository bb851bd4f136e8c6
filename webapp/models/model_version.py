"""Model versions: weights that were trained or came with the source."""

from __future__ import annotations

from django.db import models

from webapp.models.present import Present


class ModelVersion(models.Model):
    """One immutable set of weights. The hash, not the name, decides which index fits.

    The row remains when its files are removed, because answers and models trained from it name it.
    """

    name = models.CharField(max_length=100)
    version = models.CharField(max_length=100)
    model_hash = models.CharField(max_length=64, unique=True)
    block_hash = models.CharField(
        max_length=64, help_text="Of the block embedder alone: an index fits every model that shares it."
    )
    path = models.CharField(max_length=1000, help_text="Folder, absolute or relative to the data folder.")
    parent = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="children", help_text="Trained from."
    )
    corpus = models.ForeignKey(
        "webapp.CorpusSnapshot",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="model_versions",
        help_text="Trained on.",
    )
    job = models.ForeignKey(
        "webapp.Job",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="model_versions",
        help_text="Made by.",
    )
    pinned = models.BooleanField(default=False, help_text="Retention removes no index that it built.")
    card = models.TextField(blank=True, help_text="Recipe, data, licences and figures, in Markdown.")
    removed_at = models.DateTimeField(null=True, blank=True, help_text="When its files were removed.")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = Present["ModelVersion"]()
    every = models.Manager["ModelVersion"]()

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [models.UniqueConstraint(fields=["name", "version"], name="model_name_version_unique")]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"
