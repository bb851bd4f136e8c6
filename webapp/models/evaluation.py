"""Evaluations: figures of a model over an index on a question set."""

from __future__ import annotations

from django.db import models

from realm_core.evaluation.answering_code import answering_code
from realm_core.evaluation.predictions import CODE


class Evaluation(models.Model):
    """One measurement. Two are comparable if question set, sample, k and corpus are the same."""

    model = models.ForeignKey("webapp.ModelVersion", on_delete=models.PROTECT, related_name="evaluations")
    corpus = models.ForeignKey("webapp.CorpusSnapshot", on_delete=models.PROTECT, related_name="evaluations")
    index = models.ForeignKey(
        "webapp.IndexGeneration",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="evaluations",
        help_text="Null: BM25 found the blocks, or the generation has been pruned.",
    )
    state_id = models.CharField(
        max_length=16,
        blank=True,
        default="",
        help_text="Of the corpus with what was edited above the index, as it was asked; empty: nothing was.",
    )
    questions = models.ForeignKey("webapp.QuestionSet", on_delete=models.PROTECT, related_name="evaluations")
    retriever = models.CharField(max_length=10)
    k = models.PositiveSmallIntegerField()
    normalisation = models.CharField(max_length=20)
    sample = models.PositiveIntegerField(help_text="How many of the questions were drawn; 0: all.")
    asked = models.PositiveIntegerField(help_text="How many questions were asked.")
    exact_match = models.FloatField(help_text="Share of the questions, 0 to 1.")
    recall_at_5 = models.FloatField(help_text="Share of the questions, 0 to 1.")
    figures = models.JSONField(help_text="Everything that `realm_core evaluate` measured.")
    predictions = models.CharField(max_length=1000, help_text="File, absolute or relative to the data folder.")
    job = models.ForeignKey("webapp.Job", on_delete=models.SET_NULL, null=True, blank=True, related_name="evaluations")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.model} on {self.questions.name}: exact match {self.exact_match:.1%}"

    @property
    def drawn(self) -> int:
        """How many of the questions were drawn; 0: the whole set was asked, also if `sample` is larger."""
        return self.questions.drawn(self.sample)

    @property
    def unanswerable(self) -> int:
        """How many of the questions have no answer: silence is right there, and no block can be found."""
        return int(self.figures.get("unanswerable", 0))

    @property
    def answerable(self) -> int:
        """How many of the questions have an answer: recall and the share withheld are of these."""
        return self.asked - self.unanswerable

    @property
    def code(self) -> str:
        """`answering_code` of the program that has answered; empty where it is not known."""
        return str(self.figures.get("of", {}).get(CODE, ""))

    @property
    def is_of_this_version(self) -> bool:
        """Whether this program would answer the same; another version of it may answer otherwise."""
        return self.code == answering_code()
