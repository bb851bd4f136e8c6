"""Asking over REST: questions and retrieval."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any, Final

from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from webapp.access.collections import access_of
from webapp.access.limits import asker_name
from webapp.asking import examples
from webapp.asking import service as asking
from webapp.asking.history import asker_key
from webapp.asking.kept_api import answer_json, with_rights
from webapp.asking.serializers import AnswerSerializer, QuestionSerializer, RetrievalSerializer
from webapp.asking.service import Retrieval
from webapp.models import AskedAnswer
from webapp.rest.base import AskingView
from webapp.rest.headers import SERVER_TIMING
from webapp.rest.idempotency import claim
from webapp.rest.operation import given, operation, sent
from webapp.rest.parameters import idempotency_key, key_parameter
from webapp.rest.throttle import AskThrottle
from webapp.serving.living import active, answering_view

_KEY: Final = key_parameter(
    "1 to 255 visible characters, such as a UUID. The same key and question within 24 hours return the "
    "kept answer (200, `Idempotency-Replayed: true`), another question 422, and 409 while the first is under "
    "way."
)


class AskView(AskingView):
    throttle_classes = [AskThrottle]

    @operation(
        "ask",
        "Ask a question",
        "Retrieves the k best blocks, reads them and keeps the answer; `Location` is its address.",
        takes=QuestionSerializer,
        parameters=[_KEY],
        gives={
            200: OpenApiResponse(AnswerSerializer, description="The kept answer of this key."),
            201: AnswerSerializer,
        },
        problems=[409, 422, 429],
        headers=[SERVER_TIMING],
        examples=[
            sent("Question", examples.QUESTION),
            sent("In some documents", examples.QUESTION_IN),
            given("Answer", examples.ANSWER, 201),
            given("Invalid", examples.PROBLEM, 400),
        ],
    )
    def post(self, request: Request, body: dict[str, Any]) -> Response:
        asked, replayed = self._answer(request, body)
        headers = {"Location": reverse("api-answer", args=[asked.pk], request=request)}
        if replayed:
            headers["Idempotency-Replayed"] = "true"
        return Response(answer_json(asked), status=200 if replayed else 201, headers=headers)

    def _answer(self, request: Request, question: dict[str, Any]) -> tuple[AskedAnswer, bool]:
        """The answer, and whether it is a stored one."""
        key = idempotency_key(request)
        wanted = asking.checked(**question, access=access_of(request.user))
        ask = partial(asking.ask, wanted, asker=request.user, session_key=asker_key(request))
        if key is None:
            return ask(), False
        with claim(asker_name(request), key, question) as claimed:
            if claimed.answer is not None:
                return claimed.answer, True
            return ask(kept=claimed.fulfil), False


class RetrieveView(AskingView):
    throttle_classes = [AskThrottle]

    @operation(
        "retrieve",
        "Find blocks without reading them",
        takes=QuestionSerializer,
        gives=RetrievalSerializer,
        problems=[422, 429],
        examples=[
            sent("Question", examples.QUESTION),
            sent("In some documents", examples.QUESTION_IN),
            given("Blocks", examples.RETRIEVAL),
        ],
    )
    def post(self, request: Request, body: dict[str, Any]) -> Response:
        return Response(retrieval_json(asking.retrieve(asking.checked(**body, access=access_of(request.user)))))


def retrieval_json(found: Retrieval) -> dict[str, Any]:
    """The blocks that were found, as the API tells them."""
    told = asdict(found)
    return told | {"blocks": with_rights(told["blocks"], active().index, answering_view())}
