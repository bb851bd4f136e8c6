"""All feedback over REST, for operators; curators review it in the console."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request

from webapp.feedback import service as feedback
from webapp.models import Deployment, Feedback, Review
from webapp.rest.base import OperatorView
from webapp.rest.lists import RecordList
from webapp.rest.parameters import by_id, by_time, by_truth, by_word
from webapp.rest.serializers import RecordSerializer, person_field

_BLOCK: Final = "0f6c3d9c4be1f2a35c6e0d7a8b91e2c4"
_ANSWER: Final = "4f5e3c1a-0d2b-4c8e-9a67-1b2c3d4e5f60"
_SAID: Final[dict[str, Any]] = {
    "id": 21,
    "answer": _ANSWER,
    "question": "Who directed 2001: A Space Odyssey?",
    "answered": "Arthur C. Clarke",
    "deployment": 12,
    "right": False,
    "better_answer": "Stanley Kubrick",
    "block_id": _BLOCK,
    "teaches": True,
    "review": "accepted",
    "by": "memo",
    "changed_at": "2026-01-31T12:00:00Z",
    "reviewed_by": "cora",
    "reviewed_at": "2026-01-31T13:00:00Z",
}


class SaidOfAnswerSerializer(RecordSerializer):
    """One asker's feedback on an answer, and a curator's review."""

    question = serializers.CharField(source="answer.question")
    answered = serializers.CharField(source="answer.answer_text", allow_null=True, help_text="Null: none was found.")
    deployment = serializers.IntegerField(source="answer.deployment_id", help_text="The deployment that answered.")
    teaches = serializers.BooleanField(help_text="Whether it can be trained on, once it is accepted.")
    by = person_field()
    reviewed_by = person_field()

    class Meta:
        model = Feedback
        fields = [
            *("id", "answer", "question", "answered", "deployment", "right", "better_answer", "block_id", "teaches"),
            *("review", "by", "changed_at", "reviewed_by", "reviewed_at"),
        ]


_LIST: Final = RecordList(
    filters=(
        by_word("review", Review.values),
        by_truth("teaches", "teaches", "Whether it can be trained on; curators review only this."),
        by_truth(
            "right", "right", "Whether the answer was called right or wrong; feedback without that matches neither."
        ),
        by_id("deployment", Deployment, "answer__deployment"),
        *by_time("changed_at"),
    ),
    orders=("changed_at",),
    address="feedback",
    kind=SaidOfAnswerSerializer,
    example=_SAID,
    page_name="FeedbackPage",
)


class AllFeedbackView(OperatorView):
    @_LIST.operation(
        "all_feedback",
        "List all feedback on answers",
        "A curator's list in the console is `review=waiting&teaches=true`.",
    )
    def get(self, _request: Request) -> QuerySet[Feedback]:
        return feedback.all_feedback()
