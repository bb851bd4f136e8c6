"""The right answer, and the explanation of a wrong one, in the API."""

from __future__ import annotations

from typing import Any, Final

from rest_framework import serializers

from realm_core.evaluation.why import CAUSES, NOT_READ
from webapp.rest.serializers import StrictCharField, StrictSerializer


class RightAnswerSerializer(StrictSerializer):
    """The right answer. Its length is checked by the service."""

    answer = StrictCharField(
        trim_whitespace=False, allow_blank=True, help_text="A name, a date, a phrase: at most 300 characters."
    )


class ContenderSerializer(serializers.Serializer[Any]):
    """An answer, and the block that contributes most to it."""

    text = serializers.CharField(allow_null=True, help_text="Null: “not here”, or no span of the block is right.")
    probability = serializers.FloatField(help_text="Over all blocks; under `misread`, in this block.")
    block_id = serializers.CharField()
    title = serializers.CharField()


CAUSE_CHOICES: Final = [*CAUSES, NOT_READ]


class WhySerializer(serializers.Serializer[Any]):
    """Why an answer is wrong."""

    cause = serializers.ChoiceField(
        choices=CAUSE_CHOICES,
        help_text="`right`: it is not wrong. `withheld`: the best candidate is right, but too unlikely to be given. "
        "`outweighed`: a block read holds it, another one is more probable over all blocks. `misread`: the blocks read "
        "that hold it were read as another answer, or none. `not_retrieved`: only blocks that were not read "
        "hold it. `not_in_corpus`: no block does. `not_read`: no block read does, and of others it is not known.",
    )
    detail = serializers.CharField(help_text="The same in sentences, with what is not known.")
    chosen = ContenderSerializer(allow_null=True, help_text="What was chosen (`outweighed`, `misread`).")
    right = ContenderSerializer(allow_null=True, help_text="The right answer, if a block read holds it.")
    no_answer_probability = serializers.FloatField(
        allow_null=True, help_text="Probability of “not here” in the right block (`misread`) or over all (`withheld`)."
    )
    rank = serializers.IntegerField(
        allow_null=True,
        help_text="Rank of the best block that holds it, in today's corpus; null: not known, or beyond `looked_at`.",
    )
    looked_at = serializers.IntegerField(
        allow_null=True, help_text="How many ranks were searched; 0: ranks are not known."
    )
