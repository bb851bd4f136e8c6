"""Corpora, models, indexes, question sets, span sets, evaluations and deployments, as the API shows them.

Records name one another by ids. `job` is what made a record, null where that was no job.
"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from webapp.artefacts.registering import search_of_index
from webapp.models import (
    CorpusSnapshot,
    Evaluation,
    IndexGeneration,
    ModelVersion,
    Purpose,
    QuestionSet,
    SpanSet,
)
from webapp.questions.service import LARGEST_FILE_BYTES
from webapp.questions.tables import COLUMNS
from webapp.rest.serializers import (
    RecordSerializer,
    StrictCharField,
    StrictSerializer,
    WordField,
    person_field,
)


def _ids(help_text: str) -> serializers.ManyRelatedField:
    related = serializers.PrimaryKeyRelatedField[Any](read_only=True)
    return serializers.ManyRelatedField(child_relation=related, read_only=True, help_text=help_text)


class CorpusSerializer(RecordSerializer):
    """A corpus snapshot."""

    indexes = _ids("Indexes of it.")
    span_sets = _ids("Salient spans of it.")
    model_versions = _ids("Models that were trained on it.")

    class Meta:
        model = CorpusSnapshot
        fields = [
            *("id", "name", "snapshot_id", "path", "source", "language", "articles", "blocks", "share"),
            *("licence", "attribution", "job", "indexes", "span_sets", "model_versions", "removed_at", "created_at"),
        ]


class ModelSerializer(RecordSerializer):
    """A model version."""

    children = _ids("Models that were trained from it.")
    indexes = _ids("Indexes that it built; an index fits every model of the same `block_hash`.")
    evaluations = _ids("Measurements of it.")

    class Meta:
        model = ModelVersion
        fields = [
            *("id", "name", "version", "model_hash", "block_hash", "path", "parent", "corpus", "job", "children"),
            *("indexes", "evaluations", "pinned", "removed_at", "created_at"),
        ]


class ModelDetailSerializer(ModelSerializer):
    """A model version with its card."""

    class Meta(ModelSerializer.Meta):
        fields = [*ModelSerializer.Meta.fields, "card"]


class NewModelSerializer(StrictSerializer):
    """A model to add."""

    shipped = serializers.CharField(max_length=200, help_text="Name of a model that comes with the source.")


class IndexSerializer(RecordSerializer):
    """An index generation."""

    evaluations = _ids("Measurements over it.")
    deployments = _ids("When it was deployed.")
    folded_from = _ids("Indexes whose documents, and the edits above them, a fold made it of.")
    search = serializers.SerializerMethodField(
        help_text="How blocks are found, exactly or approximately, and why; empty where its files were removed."
    )

    def get_search(self, index: IndexGeneration) -> str:
        return search_of_index(index)

    class Meta:
        model = IndexGeneration
        fields = [
            *("id", "generation", "model", "corpus", "path", "rows", "dim", "search", "job", "evaluations"),
            *("deployments", "folded_from", "folded_into", "pinned", "removed_at", "created_at"),
        ]


class QuestionSetSerializer(RecordSerializer):
    """A file of questions with answers."""

    evaluations = _ids("Measurements by it.")
    created_by = person_field()

    class Meta:
        model = QuestionSet
        fields = [
            *("id", "name", "purpose", "path", "sha256", "questions", "origin", "evaluations", "created_by"),
            "created_at",
        ]


class NewQuestionSetSerializer(StrictSerializer):
    """A question set to add."""

    file = serializers.FileField(
        help_text="JSON lines, a question each: question, answers (a list), and title or context if known; or a "
        f"table, CSV or TSV, whose first line names the columns: {COLUMNS}. At most {LARGEST_FILE_BYTES >> 20} MB."
    )
    purpose = WordField(Purpose.choices, help_text="Models are never trained on questions that they are measured by.")
    leave_out_measured = serializers.BooleanField(
        default=False,
        help_text="Of a set to learn from: leave out the questions that are in a set to measure by, instead of "
        "refusing the file.",
    )
    name = StrictCharField(
        default="", allow_blank=True, max_length=100, help_text="If not given: the file's, without its ending."
    )
    origin = StrictCharField(
        default="",
        allow_blank=True,
        max_length=200,
        help_text="Where the questions came from, and their licence.",
    )


class SpanSetSerializer(RecordSerializer):
    """The salient spans of a corpus snapshot."""

    class Meta:
        model = SpanSet
        fields = ["id", "corpus", "path", "tagger", "spans", "blocks", "job", "created_at"]


class EvaluationSerializer(RecordSerializer):
    """A measurement."""

    class Meta:
        model = Evaluation
        fields = [
            *("id", "model", "corpus", "state_id", "index", "questions", "retriever", "k", "normalisation", "sample"),
            *("asked", "exact_match", "recall_at_5", "predictions", "job", "created_at"),
        ]
        extra_kwargs = {
            "exact_match": {
                "help_text": "Share of all questions, 0 to 1; of one without an answer, silence counts as right."
            },
            "recall_at_5": {
                "help_text": "Share of the questions with an answer, 0 to 1; `figures.unanswerable` have none."
            },
        }


class EvaluationDetailSerializer(EvaluationSerializer):
    """A measurement with everything that was measured."""

    figures = serializers.DictField(
        help_text="Everything that `realm_core evaluate` measured. `why`: the number of questions by cause, as `cause` "
        "of a prediction; it is missing where causes were not looked for."
    )

    class Meta(EvaluationSerializer.Meta):
        fields = [*EvaluationSerializer.Meta.fields, "figures"]
