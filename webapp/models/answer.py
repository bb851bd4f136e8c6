"""Questions with their answers and evidence. Rows are written once, so a permanent link always shows the same, whatever
happens to models and corpora. Only a purge changes them: it removes passages from their evidence."""

from __future__ import annotations

import uuid
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import models

if TYPE_CHECKING:
    from realm_core.serving.provenance import Answer

ASKER_ENTRY: Final = "asker"  # key in a session: the `session_key` of answers to its questions without an account


class AskedAnswer(models.Model):
    """One question and the engine's answer."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    question = models.TextField()
    asker = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="answers"
    )
    session_key = models.CharField(max_length=40, blank=True, help_text="Whose history it is in, when not logged in.")
    k = models.PositiveSmallIntegerField(help_text="Blocks to read.")
    exclude = models.JSONField(default=list, blank=True, help_text="Ids of blocks that were not to be read.")
    collections = models.JSONField(
        default=list, blank=True, help_text="Names of the collections that were to be looked in; none: all."
    )
    filters = models.JSONField(default=dict, blank=True, help_text="Which of their documents were to be looked in.")
    as_typed = models.BooleanField(default=False, help_text="Whether its spelling was not to be corrected.")
    answer_text = models.TextField(null=True, blank=True, help_text="Null: none was found.")
    probability = models.FloatField(null=True, blank=True)
    no_answer_probability = models.FloatField(null=True, blank=True)
    confidence = models.FloatField(
        null=True, blank=True, help_text="In the answer given; null as well for one kept before there was a confidence."
    )
    payload = models.JSONField(help_text="What the engine said, as realm_core.serving.provenance.Answer writes it.")
    deployment = models.ForeignKey("webapp.Deployment", on_delete=models.PROTECT, related_name="answers")
    again_of = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="asked_again",
        help_text="The kept answer whose question this one asked again.",
    )
    purged_at = models.DateTimeField(
        null=True, blank=True, help_text="When passages were last purged from its evidence; it is what the others say."
    )
    latency_ms = models.FloatField()
    serving_ms = models.JSONField(
        default=dict,
        blank=True,
        help_text="Milliseconds that storing and rendering took, where the web served it.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["asker", "-created_at"], name="answer_asker_created"),
            models.Index(fields=["session_key", "-created_at"], name="answer_session_created"),
            # With the latency, so that the overview computes a percentile from the index alone.
            models.Index(fields=["-created_at", "latency_ms"], name="answer_created_latency"),
        ]

    def __str__(self) -> str:
        return f"{self.question[:80]} → {self.answer_text or 'no answer found'}"

    def tell(self, answer: Answer) -> None:
        """Take over what an answer says; not saved yet."""
        self.answer_text = answer.answer.text if answer.answer else None
        self.probability = answer.answer.probability if answer.answer else None
        self.no_answer_probability = answer.no_answer_probability
        self.confidence = answer.confidence if answer.answer else None
        self.payload = answer.as_dict()

    @property
    def reading(self) -> dict[str, Any]:
        """The payload, with what answers stored in earlier versions lack: a confidence, and what was read."""
        if "confidence" in self.payload:
            return {"read_as": "", **self.payload}
        from realm_core.serving.provenance import Answer

        return Answer.from_dict(self.payload).as_dict()


class EvidenceBlock(models.Model):
    """One block that was read for an answer; for queries over many answers. Its text is in the answer's payload."""

    answer = models.ForeignKey(AskedAnswer, on_delete=models.CASCADE, related_name="evidence")
    rank = models.PositiveSmallIntegerField()
    block_id = models.CharField(max_length=64, db_index=True)
    collection = models.CharField(max_length=100, help_text="That its document was in.")
    prior = models.FloatField()
    likelihood = models.FloatField()
    posterior = models.FloatField()
    support = models.FloatField()

    class Meta:
        ordering = ["answer", "rank"]
        constraints = [models.UniqueConstraint(fields=["answer", "rank"], name="evidence_rank_unique")]

    def __str__(self) -> str:
        return f"{self.rank}. block {self.block_id}"  # the title would cost a query for each of a list

    @property
    def title(self) -> str:
        return str(self._read["title"])

    @property
    def text(self) -> str:
        """Its text as it was read."""
        return str(self._read["text"])

    @property
    def url(self) -> str:
        """The address of its article; empty if that has none."""
        return str(self._read["url"])

    @cached_property
    def _read(self) -> dict[str, Any]:
        """The block's part of the answer's payload."""
        return next(block for block in self.answer.payload["evidence"] if block["rank"] == self.rank)

    @staticmethod
    def keep(asked: AskedAnswer, answer: Answer) -> None:
        """Write a row for each block of an answer."""
        EvidenceBlock.objects.bulk_create(
            EvidenceBlock(
                answer=asked,
                rank=block.rank,
                block_id=block.block_id,
                # Answers kept by earlier versions name no collection.
                collection=block.collection or asked.deployment.index.corpus.name,
                prior=block.prior,
                likelihood=block.likelihood,
                posterior=block.posterior,
                support=block.support,
            )
            for block in answer.evidence
        )
