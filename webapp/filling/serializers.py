"""Masked sentences and their fillings in the API."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from realm_core.settings import MAX_K
from realm_core.text.masked import MOST_MASKS
from webapp.asking.serializers import texts_field
from webapp.asking.service import MAX_EXCLUDED
from webapp.filling.service import DEFAULT_K, MAX_SENTENCE_CHARACTERS
from webapp.rest.serializers import BoundedIntegerField, StrictCharField, StrictSerializer


class SentenceSerializer(StrictSerializer):
    """A sentence with masks. Lengths and ranges are checked by the service."""

    sentence = StrictCharField(
        trim_whitespace=False,
        allow_blank=True,
        help_text=f"With [MASK] for each missing wordpiece, 1 to {MOST_MASKS} of them; at most "
        f"{MAX_SENTENCE_CHARACTERS} characters after folding white space.",
    )
    k = BoundedIntegerField(2, MAX_K, default=DEFAULT_K, help_text="How many blocks to read, including the null block.")
    exclude = texts_field(f"Ids of blocks that must not be read, at most {MAX_EXCLUDED}.")
    truth = StrictCharField(
        default=None,
        allow_null=True,
        allow_blank=True,
        trim_whitespace=False,
        help_text="The masked words; their probabilities are returned, too. A single [MASK] is replaced by as many as "
        "it has wordpieces, several must be equally many.",
    )


class WordSerializer(serializers.Serializer[Any]):
    """A wordpiece for one mask."""

    text = serializers.CharField(help_text="As in the vocabulary: lower case, ## if it continues a word.")
    probability = serializers.FloatField()


class MaskSerializer(serializers.Serializer[Any]):
    """The most probable wordpieces for one mask, in each of the three ways."""

    without_retrieval = WordSerializer(many=True)
    best_block = WordSerializer(many=True, help_text="Empty if only the null block was read.")
    marginal = WordSerializer(many=True)


class GuessSerializer(serializers.Serializer[Any]):
    """Wordpieces for all masks together, with their probability in each of the three ways."""

    words = serializers.ListField(child=serializers.CharField())
    text = serializers.CharField(help_text="The wordpieces as text.")
    without_retrieval = serializers.FloatField(
        allow_null=True, help_text="p(y | ∅, x), ∅ the null block; null if the reader filled it."
    )
    best_block = serializers.FloatField(allow_null=True, help_text="p(y | z, x), z the best block.")
    marginal = serializers.FloatField(help_text="p(y | x): the sum over the blocks read of prior × likelihood.")


class FillingEvidenceSerializer(serializers.Serializer[Any]):
    """A block that was read. Likelihood, posterior and utility refer to the filling that `explains` names."""

    rank = serializers.IntegerField(help_text="1 is the highest posterior.")
    block_id = serializers.CharField(allow_null=True, help_text="Null: the null block, which has no text.")
    title = serializers.CharField(allow_blank=True)
    text = serializers.CharField(allow_blank=True)
    section = serializers.CharField(allow_blank=True)
    url = serializers.CharField(allow_blank=True)
    prior = serializers.FloatField(help_text="p(z | x); sums to one over the blocks read.")
    likelihood = serializers.FloatField(help_text="p(y | z, x).")
    posterior = serializers.FloatField(help_text="p(z | y, x); sums to one over the blocks read.")
    utility = serializers.FloatField(
        allow_null=True,
        help_text="Retrieval utility, log p(y | z, x) − log p(y | ∅, x); positive: the block helps. Null if the reader "
        "filled it.",
    )
    retriever_score = serializers.FloatField(help_text="Inner product of sentence and block vectors.")


class FillingSerializer(serializers.Serializer[Any]):
    """A sentence filled without retrieval, from its best block, and from all blocks read together."""

    sentence = serializers.CharField(help_text="With one [MASK] for each missing wordpiece.")
    guesses = GuessSerializer(many=True, help_text="Words for all masks together, the highest marginal first.")
    truth = GuessSerializer(allow_null=True, help_text="The same for the truth, if it was given.")
    explains = serializers.ChoiceField(
        choices=["truth", "guess"], help_text="What the evidence refers to: the truth, or the first guess."
    )
    masks = MaskSerializer(many=True, help_text="The most probable wordpieces for each mask separately.")
    best_block_id = serializers.CharField(
        allow_null=True, help_text="Id of the “best block”: the one with the highest posterior."
    )
    evidence = FillingEvidenceSerializer(many=True, help_text="The blocks read, the highest posterior first.")
    model = serializers.CharField()
    index = serializers.CharField()
    corpus = serializers.CharField()
    latency_ms = serializers.FloatField()
    timings_ms = serializers.DictField(child=serializers.FloatField())
    filled_by = serializers.ChoiceField(
        choices=["encoder", "reader"], help_text="The encoder of masked sentences, or, without one, the span reader."
    )
    no_answer_probability = serializers.FloatField(
        allow_null=True, help_text="Of the reader: the probability that no block read says it."
    )
