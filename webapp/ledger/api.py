"""The ledger over REST: the changes of documents, and the kept answers that they touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.ledger import examples
from webapp.ledger import service as ledger
from webapp.ledger.touched import LIMIT_S, Outcome, Touched
from webapp.models import ChangeKind, CorpusChange, Document
from webapp.rest.base import EditorView
from webapp.rest.lists import PAGING, RecordList, offset_in, offset_links
from webapp.rest.operation import given, operation
from webapp.rest.parameters import by_text, by_time, by_word, truth
from webapp.rest.serializers import person_field

if TYPE_CHECKING:
    from realm_core.serving.provenance import Answer


class DocumentChangeSerializer(serializers.ModelSerializer[CorpusChange]):
    """What one edit did to one document."""

    document = serializers.CharField(source="document.document_id", help_text="Its id.")
    title = serializers.CharField(source="document.title", help_text="As it is now; empty: it was purged.")
    blocks_gone = serializers.SerializerMethodField(help_text="How many blocks are searched no more.")
    blocks_new = serializers.SerializerMethodField(help_text="How many blocks are searched since.")
    state = serializers.CharField(source="after.state_id", help_text="The corpus state that it led to.")
    by = person_field()

    class Meta:
        model = CorpusChange
        fields = (
            *("id", "kind", "document", "title", "at", "by", "blocks_gone", "blocks_new", "state"),
            *("moved_from", "collection", "readers"),
        )
        read_only_fields = fields

    def get_blocks_gone(self, change: CorpusChange) -> int:
        """How many blocks are searched no more."""
        return len(change.removed_here)

    def get_blocks_new(self, change: CorpusChange) -> int:
        """How many blocks are searched since."""
        return len(change.blocks_new)


_LIST: Final = RecordList(
    filters=(
        by_text("document_id", Document, "document__document_id"),
        by_word("kind", ChangeKind.values),
        *by_time("at"),
    ),
    order=("-at", "-pk"),
    address="document-changes",
    kind=DocumentChangeSerializer,
    example=examples.CHANGE,
    page_name="DocumentChangePage",
)


OUTCOME_CHOICES: Final = [one.value for one in Outcome]


class OutcomesSerializer(serializers.Serializer[Any]):
    """How many answers come to each outcome."""

    same = serializers.IntegerField()
    other_block = serializers.IntegerField(help_text="The same answer, best explained by another block.")
    other_answer = serializers.IntegerField()
    no_answer = serializers.IntegerField(help_text="There was an answer, and without the blocks there is none.")
    answer_given = serializers.IntegerField(help_text="There was no answer, and without the blocks there is one.")


class SummarySerializer(serializers.Serializer[Any]):
    """What becomes of kept answers without some blocks."""

    answers = serializers.IntegerField(
        source="reading", help_text="How many kept answers read any of the blocks: exact."
    )
    looked_at = serializers.IntegerField(
        help_text="How many of them were recomputed, the highest posterior first: all, or as many as "
        f"{LIMIT_S:g} seconds allow. Then a later request goes on where this one ended."
    )
    outcomes = OutcomesSerializer(help_text="Of the recomputed ones.")


class WithoutSerializer(serializers.Serializer[Any]):
    """What becomes of a kept answer."""

    text = serializers.CharField()
    probability = serializers.FloatField()
    explained_by = serializers.CharField(help_text="Id of the block with the highest posterior.")

    def to_representation(self, later: Answer) -> Any:
        if (best := later.answer) is None:
            return None
        return {"text": best.text, "probability": best.probability, "explained_by": later.evidence[0].block_id}


class TouchedAnswerSerializer(serializers.Serializer[Any]):
    """A kept answer that read some of the blocks."""

    answer = serializers.UUIDField(source="asked.pk", help_text="Id of the kept answer.")
    question = serializers.CharField(source="asked.question")
    text = serializers.CharField(
        source="asked.answer_text", allow_null=True, help_text="As it was answered; null: no answer was found."
    )
    posterior = serializers.FloatField(help_text="Of these blocks together, when it was stored.")
    outcome = serializers.ChoiceField(OUTCOME_CHOICES)
    without = WithoutSerializer(allow_null=True, help_text="Without the blocks; null: there is no answer then.")
    asked_again = serializers.UUIDField(
        source="asked_again.pk",
        allow_null=True,
        help_text="The latest answer to its question asked again; null: it was not.",
    )


class TouchedSerializer(serializers.Serializer[Any]):
    """The kept answers that read some blocks: all of them in numbers, and a page, the highest posterior first."""

    summary = SummarySerializer()
    next = serializers.URLField(allow_null=True, help_text="Address of the following page; null: this is the last.")
    previous = serializers.URLField(allow_null=True)
    results = TouchedAnswerSerializer(many=True)


class ChangeAnswersSerializer(TouchedSerializer):
    """The kept answers that a change touched."""

    purge = serializers.UUIDField(
        allow_null=True,
        help_text="Id of the purge that took what the change removed out of kept answers, too: its receipt says out "
        "of how many, and none is listed here any more. Null: none did.",
    )


TOUCHED_LIST: Final = [
    *PAGING,
    OpenApiParameter(
        "differing",
        OpenApiTypes.BOOL,
        description="Only the answers whose `outcome` is not `same`, of those that were recomputed.",
    ),
]


class DocumentChangesView(EditorView):
    @_LIST.operation("document_changes", "List changes of documents", "The latest first.", title="Changes")
    def get(self, _request: Request) -> QuerySet[CorpusChange]:
        return CorpusChange.objects.select_related("document", "after", "by")


class ChangeAnswersView(EditorView):
    @operation(
        "change_answers",
        "The kept answers that a change touched",
        "Those that had read a block which the change took away, and what each would have been without.",
        parameters=TOUCHED_LIST,
        gives=ChangeAnswersSerializer,
        examples=[given("Answers", examples.CHANGE_ANSWERS)],
    )
    def get(self, request: Request, change_id: int) -> Response:
        change = get_object_or_404(CorpusChange, pk=change_id)
        page = touched_page(request, ledger.touched_by(change))
        receipt = ledger.receipt(change)
        return Response(ChangeAnswersSerializer({**page, "purge": receipt and receipt.pk}).data)


def touched_page(request: Request, touched: Touched) -> dict[str, Any]:
    """The page of touched answers that a request with `TOUCHED_LIST` asks for, for `TouchedSerializer`."""
    start, count = offset_in(request)
    only_differing = truth(request, "differing")
    worked_out = touched.worked_out()
    rows = worked_out.differing if only_differing else touched.rows
    number = len(worked_out.differing) if only_differing else worked_out.summary.reading
    return {
        "summary": worked_out.summary,
        **offset_links(request, start, count, number),
        "results": touched.recomputed(rows[start : start + count]),
    }
