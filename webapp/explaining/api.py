"""Explanations of wrong answers, over REST."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.access.collections import access_of
from webapp.asking.history import readable_answer
from webapp.explaining import examples
from webapp.explaining import service as why
from webapp.explaining.serializers import RightAnswerSerializer, WhySerializer
from webapp.rest.authentication import MayExplain
from webapp.rest.base import PublicView, checked, problem_responses
from webapp.rest.throttle import AskThrottle


class WhyView(PublicView):
    """Why a kept answer is wrong, for signed-in callers who know the right one."""

    permission_classes = [MayExplain]
    throttle_classes = [AskThrottle]

    @extend_schema(
        operation_id="why",
        summary="Why an answer is wrong",
        description="Given the right answer, says where it was lost: not in the corpus, not retrieved, misread, "
        "outweighed, withheld. Nothing is stored. Ranks are known as long as the model and the index of the answer "
        "are deployed, and whether the corpus holds the right answer as long as the corpus exists.",
        request=RightAnswerSerializer,
        responses={200: WhySerializer, **problem_responses(400, 403, 404, 413, 415, 429)},
        examples=[
            OpenApiExample("The right answer", value={"answer": "Arthur C. Clarke"}, request_only=True),
            OpenApiExample("Why", value=examples.WHY, response_only=True, status_codes=["200"]),
        ],
    )
    def post(self, request: Request, answer_id: UUID) -> Response:
        sent = checked(request, RightAnswerSerializer)
        asked = readable_answer(request, answer_id, "deployment__index__corpus")
        explained = why.explain(asked, sent["answer"], access_of(request.user))
        return Response({"detail": explained.detail, **asdict(explained.why)})
