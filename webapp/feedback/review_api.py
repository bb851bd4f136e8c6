"""What everybody said of answers, over REST, for those who run the site; curators decide about it in the console."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.asking.serializers import RecordSerializer, person_field
from webapp.feedback import service as feedback
from webapp.models import Deployment, Feedback, Review
from webapp.questions import service as questions
from webapp.rest.base import (
    JSON_LINES,
    PAGING,
    LinesRenderer,
    OperatorView,
    Pages,
    Renderer,
    page_example,
    page_response,
    problem_responses,
)
from webapp.rest.parameters import (
    by_id,
    by_time,
    by_truth,
    by_word,
    filtered,
    only_parameters,
    order_parameter,
    ordering,
)

_ORDERS: Final = ("changed_at",)
_FILTERS: Final = (
    by_word("review", Review.values),
    by_truth("teaches", "teaches", "Whether something can be learnt from it; a curator looks at nothing else."),
    by_truth("right", "right", "What was said of the answer; where nothing was, neither finds it."),
    by_id("deployment", Deployment, "answer__deployment"),
    *by_time("changed_at"),
)
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
_ROW: Final[dict[str, Any]] = {
    "question": _SAID["question"],
    "answers": ["Stanley Kubrick"],
    "answer_ids": [_ANSWER],
    "block_ids": [_BLOCK],
    "title": "2001: A Space Odyssey (film)",
    "context": "2001: A Space Odyssey is a 1968 film produced and directed by Stanley Kubrick.",
}


class SaidOfAnswerSerializer(RecordSerializer):
    """One asker's word on an answer, and what a curator made of it."""

    question = serializers.CharField(source="answer.question")
    answered = serializers.CharField(source="answer.answer_text", allow_null=True, help_text="Null: none was found.")
    deployment = serializers.IntegerField(source="answer.deployment_id", help_text="Which one answered.")
    teaches = serializers.BooleanField(help_text="Whether something can be learnt from it, once it is accepted.")
    by = person_field()
    reviewed_by = person_field()

    class Meta:
        model = Feedback
        fields = [
            *("id", "answer", "question", "answered", "deployment", "right", "better_answer", "block_id", "teaches"),
            *("review", "by", "changed_at", "reviewed_by", "reviewed_at"),
        ]


class FeedbackQuestionSerializer(serializers.Serializer[Any]):
    """A question of a question file, made of what was said of one or several answers to it."""

    question = serializers.CharField()
    answers = serializers.ListField(child=serializers.CharField())
    answer_ids = serializers.ListField(
        child=serializers.UUIDField(), help_text="The answers that people spoke of, at `/api/v1/answers/{id}`."
    )
    block_ids = serializers.ListField(
        child=serializers.CharField(), help_text="The blocks that were named as the right evidence."
    )
    title = serializers.CharField(required=False, help_text="The article of `context`.")
    context = serializers.CharField(  # type: ignore[assignment]  # a field, not Serializer.context
        required=False, help_text="A block that holds the answer, where one is known."
    )


class AllFeedbackView(OperatorView):
    """What everybody said."""

    @extend_schema(
        operation_id="all_feedback",
        summary="List what everybody said of answers",
        description="A curator's list in the console is `review=waiting&teaches=true`.",
        parameters=[*PAGING, order_parameter(_ORDERS), *(one.parameter for one in _FILTERS)],
        responses={200: page_response("FeedbackPage", SaidOfAnswerSerializer), **problem_responses(400, 403)},
        examples=[page_example("Feedback", _SAID, "feedback")],
    )
    def get(self, request: Request) -> Response:
        said = filtered(request, feedback.all_of_it(), _FILTERS, also=("order",))
        pages = Pages(ordering(request, _ORDERS))
        page = pages.paginate_queryset(said, request)
        return pages.get_paginated_response(SaidOfAnswerSerializer(page, many=True).data)


class ExportView(OperatorView):
    """What was accepted, to learn from."""

    renderer_classes = [LinesRenderer, Renderer]  # the other one for what goes wrong

    @extend_schema(
        operation_id="feedback_export",
        summary="Download accepted feedback as questions to learn from",
        description="A question file, as the console gives it: a right answer teaches itself, a wrong one what was "
        "said to be better. What only names a block is not in it, because nothing is learnt without an answer. "
        "Nothing accepted yet: no line. 422 where a set to measure by, whose questions are left out, cannot be read.",
        responses={
            (200, JSON_LINES): OpenApiResponse(FeedbackQuestionSerializer, description="One a line."),
            **problem_responses(400, 403, 422),
        },
        examples=[
            OpenApiExample("Question", value=_ROW, response_only=True, status_codes=["200"], media_type=JSON_LINES)
        ],
    )
    def get(self, request: Request) -> HttpResponse:
        only_parameters(request, ())
        name, content = questions.feedback_export()
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(content, content_type=JSON_LINES, headers=headers)
