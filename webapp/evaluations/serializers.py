"""The questions of an evaluation in the API."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from webapp.evaluations.outcomes import ALL_CAUSES, QuestionOutcome


class PredictionSerializer(serializers.Serializer[Any]):
    """A question of an evaluation, and what was said."""

    number = serializers.IntegerField(help_text="From 1, in the order in which they were asked.")
    outcome = serializers.ChoiceField(
        [one.value for one in QuestionOutcome],
        help_text="`withheld`: the best candidate is right, but too unlikely to be given; exact match counts it as "
        "right. Of a question without an answer silence is right.",
    )
    question = serializers.CharField(source="prediction.question")
    answers = serializers.ListField(
        child=serializers.CharField(), source="prediction.answers", help_text="What is right; empty: it has no answer."
    )
    prediction = serializers.CharField(source="prediction.prediction", help_text="The best candidate.")
    given = serializers.BooleanField(source="prediction.given", help_text="Whether it was given as the answer.")
    probability = serializers.FloatField(source="prediction.probability", help_text="Of the best candidate: p(y|x).")
    no_answer_probability = serializers.FloatField(source="prediction.no_answer_probability", allow_null=True)
    confidence = serializers.FloatField(
        source="prediction.confidence", allow_null=True, help_text="Null: an earlier version of this program measured."
    )
    answer_rank = serializers.IntegerField(
        source="prediction.answer_rank",
        allow_null=True,
        help_text="Rank of the first block retrieved that holds a right answer; null: none does.",
    )
    blocks = serializers.ListField(
        child=serializers.CharField(),
        source="prediction.blocks",
        help_text="Titles of the blocks read, the one that contributes most first.",
    )
    cause = serializers.ChoiceField(
        ALL_CAUSES,
        source="prediction.why.cause",
        allow_null=True,
        default=None,
        help_text="Why it is right or wrong; null: that was not looked for (`why` of the job).",
    )
