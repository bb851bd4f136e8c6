"""Accepted feedback over REST, as training questions."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request

from webapp.questions import service as questions
from webapp.rest.base import JSON_LINES, LinesRenderer, OperatorView, Renderer
from webapp.rest.headers import CONTENT_DISPOSITION
from webapp.rest.operation import given, operation

_ROW: Final[dict[str, Any]] = {
    "question": "Who directed 2001: A Space Odyssey?",
    "answers": ["Stanley Kubrick"],
    "answer_ids": ["4f5e3c1a-0d2b-4c8e-9a67-1b2c3d4e5f60"],
    "block_ids": ["0f6c3d9c4be1f2a35c6e0d7a8b91e2c4"],
    "title": "2001: A Space Odyssey (film)",
    "context": "2001: A Space Odyssey is a 1968 film produced and directed by Stanley Kubrick.",
}


class FeedbackQuestionSerializer(serializers.Serializer[Any]):
    """A line of a question file, made from the feedback on one or several answers to a question."""

    question = serializers.CharField()
    answers = serializers.ListField(child=serializers.CharField())
    answer_ids = serializers.ListField(
        child=serializers.UUIDField(), help_text="The answers that the feedback refers to, at `/api/v1/answers/{id}`."
    )
    block_ids = serializers.ListField(
        child=serializers.CharField(), help_text="The blocks named as the right evidence."
    )
    title = serializers.CharField(required=False, help_text="The article of `context`.")
    context = serializers.CharField(  # type: ignore[assignment]  # a field, not Serializer.context
        required=False, help_text="The text of a block that holds the answer, if one is known."
    )


class ExportView(OperatorView):
    renderer_classes = [LinesRenderer, Renderer]  # the second one for errors

    @operation(
        "feedback_export",
        "Download accepted feedback as training questions",
        "A question file, as in the console: a right answer is its own label, a wrong one has the better "
        "answer from the feedback. Feedback that only names a block is left out, because training needs an answer. "
        "Nothing accepted yet: no line. 422 if a set to measure by, whose questions are left out, cannot be read.",
        gives={(200, JSON_LINES): OpenApiResponse(FeedbackQuestionSerializer, description="One a line.")},
        problems=[422],
        headers=[CONTENT_DISPOSITION],
        examples=[given("Question", _ROW, media_type=JSON_LINES)],
    )
    def get(self, request: Request) -> HttpResponse:
        name, content = questions.feedback_export(request.user)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(content, content_type=JSON_LINES, headers=headers)
