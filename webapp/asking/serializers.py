"""Requests and responses of asking in the API.

Answers are sent as stored, so their serialisers describe and do not convert; a test compares them with the fields of
realm_core.serving.provenance.
"""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.fields import empty

from realm_core.settings import MAX_K
from webapp.asking.scope import MAX_VALUE_CHARACTERS, MAX_VALUES
from webapp.asking.service import MAX_EXCLUDED, MAX_QUESTION_CHARACTERS
from webapp.models import AskedAnswer, ChangeKind
from webapp.rest.serializers import (
    BoundedIntegerField,
    RecordSerializer,
    StrictBooleanField,
    StrictCharField,
    StrictSerializer,
)

BLOCKS_READ: Final = (
    "How many blocks to read; null: as many as the model reads over the corpus, 5 over the default one."
)


@extend_schema_field({"type": "string", "format": "date"})
class DayField(StrictCharField):
    """A day, as text: its errors are reported where all ways of asking pass."""


class _TextsField(serializers.ListField):
    """A list of texts; none if it is not given or null, as programs send what they leave out."""

    def run_validation(self, data: Any = empty) -> Any:
        return super().run_validation([] if data is None else data)


def texts_field(help_text: str) -> serializers.ListField:
    """A list of texts; none if it is not given."""
    child = StrictCharField(trim_whitespace=False, allow_blank=True)
    return _TextsField(child=child, default=list, allow_null=True, help_text=help_text)


def names_field(help_text: str) -> serializers.ListField:
    """A list of names to look for."""
    return texts_field(f"{help_text} At most {MAX_VALUES}, each of at most {MAX_VALUE_CHARACTERS} characters.")


class FiltersSerializer(StrictSerializer):
    """Which documents to look in: each field that is given must hold; of its values, any will do."""

    languages = names_field("Codes such as en.")
    tags = names_field("Tags of documents, in upper or lower case.")
    titles = names_field("Whole titles, in upper or lower case.")
    since = DayField(default=None, allow_null=True, help_text="The first day; documents without a date are left out.")
    until = DayField(default=None, allow_null=True, help_text="The last day; likewise.")


class QuestionSerializer(StrictSerializer):
    """A question. Lengths and ranges are checked by the service."""

    question = StrictCharField(
        trim_whitespace=False,
        allow_blank=True,
        help_text=f"At most {MAX_QUESTION_CHARACTERS} characters after folding white space; one a letter or digit.",
    )
    k = BoundedIntegerField(1, MAX_K, default=None, allow_null=True, help_text=BLOCKS_READ)
    exclude = texts_field(f"Ids of blocks that must not be read, at most {MAX_EXCLUDED}.")
    collections = names_field("Names of the collections to look in; none: all that the asker may read.")
    filters = FiltersSerializer(default=None, allow_null=True)
    as_typed = StrictBooleanField(
        default=False, help_text="Do not correct the spelling of the question, nor read a topic as a question."
    )


class KeptFiltersSerializer(serializers.Serializer[Any]):
    """Which documents were looked in; what was not given is left out."""

    languages = serializers.ListField(child=serializers.CharField(), required=False)
    tags = serializers.ListField(child=serializers.CharField(), required=False)
    titles = serializers.ListField(child=serializers.CharField(), required=False)
    since = serializers.DateField(required=False)
    until = serializers.DateField(required=False)


class RankedAnswerSerializer(serializers.Serializer[Any]):
    """A candidate answer with its probability."""

    text = serializers.CharField(help_text="In the casing and spacing of the text that it was read from.")
    probability = serializers.FloatField(help_text="Sum over the blocks read of prior × likelihood.")
    also = serializers.ListField(
        child=serializers.CharField(),
        required=False,  # older answers do not have it
        help_text="Other wordings in the evidence that name the same thing; their probability is in the sum.",
    )
    likelihood = serializers.FloatField(
        required=False,  # older answers do not have it
        allow_null=True,
        help_text="p(answer | block, question) of the block where it is highest.",
    )


class CandidateSerializer(serializers.Serializer[Any]):
    """An answer that one block offers."""

    key = serializers.CharField(help_text="The normalised answer: equal keys are the same answer.")
    text = serializers.CharField()
    likelihood = serializers.FloatField(help_text="p(answer | block, question).")
    start = serializers.IntegerField(help_text="Start of its best span, in characters of the block's text.")
    end = serializers.IntegerField()


class EvidenceSerializer(serializers.Serializer[Any]):
    """A block that was read. Likelihood, posterior and support refer to what the answer `explains`."""

    rank = serializers.IntegerField(help_text="1 is the highest posterior.")
    block_id = serializers.CharField()
    title = serializers.CharField()
    text = serializers.CharField()
    section = serializers.CharField(allow_blank=True)
    url = serializers.CharField(allow_blank=True)
    start = serializers.IntegerField(allow_null=True, help_text="Start of the answer; null: the block has no span.")
    end = serializers.IntegerField(allow_null=True)
    prior = serializers.FloatField(
        help_text="The factor of the likelihood; sums to one over the blocks read. p(block | question), except under "
        "the normalisation joint: there it is the block's weight, which includes the reader's scores."
    )
    likelihood = serializers.FloatField(help_text="p(answer | block, question).")
    posterior = serializers.FloatField(help_text="p(block | answer, question); sums to one over the blocks read.")
    support = serializers.FloatField(help_text="Posterior − prior; positive: the block supports the answer.")
    retriever_score = serializers.FloatField(
        help_text="The prior's logit: inner product of block and question vectors, plus the model's weighted lexical "
        "score of the block, divided by the prior temperature; plus the logarithm of its collection's weight."
    )
    retriever_prior = serializers.FloatField(help_text="Softmax of the retriever's scores over the blocks read.")
    no_answer_likelihood = serializers.FloatField(allow_null=True, help_text='p("not here" | block, question).')
    candidates = CandidateSerializer(many=True)
    collection = serializers.CharField(
        required=False,  # answers that were kept before it existed have none
        allow_blank=True,
        help_text="The collection that the block's document is in.",
    )
    opens = serializers.BooleanField(required=False, help_text="Whether the block begins its article.")


class RightsSerializer(serializers.Serializer[Any]):
    """What others may do with a block's document, and whom it is by: as it is now, or was last, or of the corpus."""

    licence = serializers.CharField(allow_blank=True, help_text="Of its document, as it is now; empty: not stated.")
    attribution = serializers.CharField(allow_blank=True, help_text="Whom it is by; empty: not stated.")


class ToldEvidenceSerializer(RightsSerializer, EvidenceSerializer):
    """A block that was read, with its licence and attribution."""


class ReadingSerializer(serializers.Serializer[Any]):
    """An answer with everything that it was computed from."""

    question = serializers.CharField()
    answer = RankedAnswerSerializer(allow_null=True, help_text="Null: no answer was found in the blocks read.")
    no_answer_probability = serializers.FloatField(
        allow_null=True, help_text="Probability that the blocks hold no answer; null if it is not defined."
    )
    answers = RankedAnswerSerializer(many=True, help_text="All candidates, the most probable first.")
    evidence = EvidenceSerializer(many=True, help_text="The blocks read, the highest posterior first.")
    explains = serializers.ChoiceField(
        choices=["answer", "no_answer", "candidate"],
        help_text="What the evidence's likelihood, posterior and support refer to.",
    )
    normalisation = serializers.CharField(help_text="How the reader's probabilities are normalised.")
    min_probability = serializers.FloatField(
        help_text="Where `min_confidence` is 0: a candidate below this is not given as the answer (its share against "
        "“not here”, if there is one)."
    )
    min_confidence = serializers.FloatField(
        required=False,  # answers that were kept before it existed have none
        help_text="Of the model: an answer whose `confidence` is below this is not given, nor one whose share against "
        "“not here” is below 1 %. 0: `min_probability` decides.",
    )
    confidence = serializers.FloatField(
        allow_null=True,
        help_text="How often answers like the best one are right, as measured on questions with known answers: "
        "σ(slope · logit(share) + likelihood · logit(likelihood) + margin · log(p / p of the next answer) + offset), "
        "its share being that against “not here”; null: no block offers one.",
    )
    confidence_slope = serializers.FloatField(help_text="Of the model, a parameter of `confidence`.")
    confidence_offset = serializers.FloatField(help_text="Of the model, a parameter of `confidence`.")
    confidence_likelihood = serializers.FloatField(
        required=False, help_text="Of the model, a parameter of `confidence`."
    )
    confidence_margin = serializers.FloatField(required=False, help_text="Of the model, a parameter of `confidence`.")
    model = serializers.CharField()
    index = serializers.CharField()
    corpus = serializers.CharField()
    latency_ms = serializers.FloatField()
    timings_ms = serializers.DictField(child=serializers.FloatField())
    read_as = serializers.CharField(
        required=False,  # answers that were kept before it existed have none
        allow_blank=True,
        help_text="The question with its spelling corrected, or a topic as a question; empty: it was read as typed.",
    )


GONE_KINDS: Final = [(kind.value, kind.value) for kind in (ChangeKind.CHANGED, ChangeKind.REMOVED, ChangeKind.PURGED)]


class GoneEvidenceSerializer(serializers.Serializer[Any]):
    """A block of the evidence that is no longer searched."""

    block_id = serializers.CharField()
    kind = serializers.ChoiceField(
        choices=GONE_KINDS,
        help_text="What was done to its document.",
    )
    at = serializers.DateTimeField()


class AnswerSerializer(ReadingSerializer):
    """A kept answer."""

    evidence = ToldEvidenceSerializer(many=True, help_text="The blocks read, the highest posterior first.")
    id = serializers.UUIDField()
    created_at = serializers.DateTimeField()
    without = serializers.ListField(
        child=serializers.CharField(), help_text="Blocks that were taken away again by `?without=`."
    )
    collections = serializers.ListField(
        child=serializers.CharField(), help_text="Those that were named; none: all that the asker might read."
    )
    filters = KeptFiltersSerializer()
    evidence_gone = GoneEvidenceSerializer(
        many=True, help_text="Blocks whose documents were changed or removed since; ask again for a current answer."
    )
    purged_at = serializers.DateTimeField(
        allow_null=True, help_text="When passages were last purged from its evidence; it is what the others say."
    )
    corpus_share = serializers.FloatField(
        help_text="What part of its source the corpus holds: less than 1 while the first parts of a Wikipedia answer "
        "and the rest is being indexed."
    )
    question_language = serializers.CharField(
        allow_null=True,
        help_text="Code of the language that the question seems to be in where that is not the models' own, English; "
        "then the answer may well be wrong. Null otherwise.",
    )
    passage_language = serializers.CharField(
        allow_null=True,
        help_text="The same of the passage that the answer was read from, the first in `evidence` that has it: of its "
        "document in the deployed corpus. Null also where there is no answer or the document is not there.",
    )
    serving_ms = serializers.DictField(
        child=serializers.FloatField(), help_text="Time to store the answer: `store`; {} if unknown."
    )


class ListedAnswerSerializer(RecordSerializer):
    """A kept answer in a list; its own address has all of it."""

    answer = serializers.CharField(source="answer_text", allow_null=True, help_text="Null: none was found.")
    evidence_changed = serializers.BooleanField(
        help_text="Whether blocks of its evidence were changed or removed since; its address says which."
    )

    class Meta:
        model = AskedAnswer
        fields = [
            *("id", "question", "answer", "probability", "no_answer_probability", "k", "deployment", "latency_ms"),
            *("created_at", "evidence_changed"),
        ]


class RetrievedBlockSerializer(RightsSerializer):
    """A block that was retrieved but not read."""

    rank = serializers.IntegerField()
    block_id = serializers.CharField()
    title = serializers.CharField()
    text = serializers.CharField()
    section = serializers.CharField(allow_blank=True)
    url = serializers.CharField(allow_blank=True)
    score = serializers.FloatField(help_text="The prior's logit, as `retriever_score` in evidence.")
    prior = serializers.FloatField(help_text="Softmax of the scores over the blocks found.")
    collection = serializers.CharField(help_text="The collection that its document is in.")


class RetrievalSerializer(serializers.Serializer[Any]):
    """The best blocks for a question."""

    question = serializers.CharField()
    read_as = serializers.CharField(allow_blank=True, help_text="As of an answer.")
    blocks = RetrievedBlockSerializer(many=True)
    model = serializers.CharField()
    index = serializers.CharField()
    corpus = serializers.CharField()
