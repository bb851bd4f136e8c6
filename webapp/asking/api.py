"""Asking over REST: questions and retrieval."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from webapp.access.collections import access_of
from webapp.access.limits import asker_name
from webapp.asking import examples
from webapp.asking import service as asking
from webapp.asking.history import asker_key
from webapp.asking.idempotency import claim
from webapp.asking.kept_api import answer_json
from webapp.asking.serializers import AnswerSerializer, QuestionSerializer, RetrievalSerializer
from webapp.models import AskedAnswer
from webapp.rest.base import AskingView, checked, problem_responses
from webapp.rest.parameters import idempotency_key, key_parameter
from webapp.rest.throttle import AskThrottle

_KEY: Final = key_parameter(
    "1 to 255 visible characters, such as a UUID. The same key and question within 24 hours return the "
    "stored answer (200, `Idempotency-Replayed: true`), another question 422, and 409 while the first is under "
    "way."
)


class AskView(AskingView):
    """Ask a question."""

    throttle_classes = [AskThrottle]

    @extend_schema(
        operation_id="ask",
        summary="Ask a question",
        description="Retrieves the k best blocks, reads them and keeps the answer; `Location` is its address.",
        parameters=[_KEY],
        request=QuestionSerializer,
        responses={
            200: OpenApiResponse(AnswerSerializer, description="The stored answer of this key."),
            201: AnswerSerializer,
            **problem_responses(400, 403, 409, 413, 415, 422, 429, 503),
        },
        examples=[
            OpenApiExample("Question", value=examples.QUESTION, request_only=True),
            OpenApiExample("In some documents", value=examples.QUESTION_IN, request_only=True),
            OpenApiExample("Answer", value=examples.ANSWER, response_only=True, status_codes=["201"]),
            OpenApiExample("Invalid", value=examples.PROBLEM, response_only=True, status_codes=["400"]),
        ],
    )
    def post(self, request: Request) -> Response:
        question = checked(request, QuestionSerializer)
        asked, replayed = self._answer(request, question)
        headers = {"Location": reverse("api-answer", args=[asked.pk], request=request)}
        if replayed:
            headers["Idempotency-Replayed"] = "true"
        return Response(answer_json(asked), status=200 if replayed else 201, headers=headers)

    def _answer(self, request: Request, question: dict[str, Any]) -> tuple[AskedAnswer, bool]:
        """The answer, and whether it is a stored one."""
        history = asker_key(request)
        key = idempotency_key(request)
        if key is None:
            return asking.ask(**question, asker=request.user, session_key=history), False
        asking.checked(**question, access=access_of(request.user))
        with claim(asker_name(request), key, question) as claimed:
            if claimed.answer is not None:
                return claimed.answer, True
            return asking.ask(**question, asker=request.user, session_key=history, kept=claimed.fulfil), False


class RetrieveView(AskingView):
    """Find blocks without reading them."""

    throttle_classes = [AskThrottle]

    @extend_schema(
        operation_id="retrieve",
        summary="Find blocks without reading them",
        request=QuestionSerializer,
        responses={200: RetrievalSerializer, **problem_responses(400, 403, 413, 415, 422, 429, 503)},
        examples=[
            OpenApiExample("Question", value=examples.QUESTION, request_only=True),
            OpenApiExample("In some documents", value=examples.QUESTION_IN, request_only=True),
            OpenApiExample("Blocks", value=examples.RETRIEVAL, response_only=True, status_codes=["200"]),
        ],
    )
    def post(self, request: Request) -> Response:
        return Response(asdict(asking.retrieve(**checked(request, QuestionSerializer), asker=request.user)))
