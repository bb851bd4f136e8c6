"""Many questions in one request: answered in the engine's batches, returned in the order of the questions.

Up to a hundred are returned as one JSON object; up to ten thousand as JSON lines (`Accept: application/jsonl`), each as
soon as it is known. A question that cannot be answered has a problem in its place; the others are answered.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

from django.db import Error, close_old_connections
from django.http import StreamingHttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import Throttled
from rest_framework.request import Request
from rest_framework.response import Response

from realm_core.settings import MAX_K
from webapp.access import limits
from webapp.access.collections import CollectionAccess, access_of
from webapp.asking import examples
from webapp.asking import service as asking
from webapp.asking.history import asker_key
from webapp.asking.kept_api import answer_json
from webapp.asking.places import batch_place
from webapp.asking.serializers import (
    BLOCKS_READ,
    AnswerSerializer,
    FiltersSerializer,
    QuestionSerializer,
    names_field,
    texts_field,
)
from webapp.metrics.middleware import Asking, current_asking
from webapp.models import AskedAnswer
from webapp.refusals import FieldError, InvalidRequest
from webapp.rest.base import JSON_LINES, AskingView, LinesRenderer, Renderer
from webapp.rest.headers import SERVER_TIMING
from webapp.rest.operation import given, operation, sent
from webapp.rest.problems import described_in_place
from webapp.rest.serializers import (
    BoundedIntegerField,
    ProblemSerializer,
    StrictBooleanField,
    StrictSerializer,
)
from webapp.serving.engine import serving

MOST: Final = 100
MOST_STREAMED: Final = 10_000


@extend_schema_field({"oneOf": [{"type": "string"}, {"$ref": "#/components/schemas/QuestionRequest"}]})
class _AnyField(serializers.Field[Any, Any, Any, Any]):
    """A question: a text, or an object as for `POST /ask`. Errors are reported in its place."""

    def to_internal_value(self, data: Any) -> Any:
        return data


class BatchSerializer(StrictSerializer):
    """Many questions."""

    questions = serializers.ListField(
        child=_AnyField(allow_null=True),
        help_text=f"1 to {MOST}, or to {MOST_STREAMED:,} as JSON lines: texts, or objects as of `ask`.",
    )
    k = BoundedIntegerField(
        1, MAX_K, default=None, allow_null=True, help_text=f"For questions without their own k. {BLOCKS_READ}"
    )
    exclude = texts_field("Ids of blocks that must not be read, for questions without their own list.")
    collections = names_field("Names of the collections to look in, where a question does not say so itself.")
    filters = FiltersSerializer(
        default=None, allow_null=True, help_text="Which documents to look in, where a question does not say so itself."
    )
    as_typed = StrictBooleanField(
        default=False, help_text="Do not correct spelling, where a question does not say so itself."
    )


class ResultSerializer(serializers.Serializer[Any]):
    """The result of one question: an answer or a problem."""

    index = serializers.IntegerField(help_text="Number of the question, from 0.")
    answer = AnswerSerializer(required=False)
    problem = ProblemSerializer(required=False)


class ResultsSerializer(serializers.Serializer[Any]):
    """The results of all questions."""

    results = ResultSerializer(many=True, help_text="In the order of the questions.")


class BatchView(AskingView):
    renderer_classes = [Renderer, LinesRenderer]

    @operation(
        "ask_batch",
        "Ask many questions",
        f"Up to {MOST} questions, or with `Accept: {JSON_LINES}` up to {MOST_STREAMED:,}, each of which is "
        "returned as soon as it is answered. Answers are stored as those of `ask`. Each question counts for the rate "
        "limit; those beyond it have a problem of status 429 in their place, those that the engine had no room for one "
        "of status 503, both with `retry_after_s`.",
        takes=BatchSerializer,
        gives={
            (200, "application/json"): ResultsSerializer,
            (200, JSON_LINES): OpenApiResponse(ResultSerializer, description="One a line."),
        },
        problems=[429],
        headers=[SERVER_TIMING],
        examples=[sent("Questions", examples.BATCH), given("Results", examples.RESULTS, media_type="application/json")],
    )
    def post(self, request: Request, body: dict[str, Any]) -> Response | StreamingHttpResponse:
        streamed = request.accepted_renderer.media_type == JSON_LINES
        most, number = MOST_STREAMED if streamed else MOST, len(body["questions"])
        if not 1 <= number <= most:
            raise InvalidRequest(FieldError("questions", f"There must be 1 to {most:,} questions, not {number:,}."))
        with serving():  # without an engine the whole batch is refused (503)
            pass
        history = asker_key(request)
        current = current_asking() or Asking(None)
        with batch_place(streamed=streamed) as place:
            wanted = self._counted(request, body)
            answers = asking.ask_many(wanted, asker=request.user, session_key=history, listens=current.listens)
            results = _results(answers, current)
            if not streamed:
                listed = list(results)
                current.renders()
                return Response({"results": listed})
            response = StreamingHttpResponse(_Lines(results, current, place.pop_all()), content_type=JSON_LINES)
        response["X-Accel-Buffering"] = "no"  # tells a proxy to pass on each line at once
        return response

    def _counted(self, request: Request, batch: dict[str, Any]) -> list[asking.AskRequest | Exception]:
        """The questions, validated; with an error for each that is wrong or beyond the limit."""
        questions = batch["questions"]
        granted = len(questions)
        if (allowance := limits.count(request, granted)) is not None:
            self.headers = {**self.headers, **allowance.headers()}
            if not (granted := allowance.granted):
                raise Throttled(wait=allowance.reset_s)
        common = {name: batch[name] for name in ("k", "exclude", "collections", "filters", "as_typed")}
        access = access_of(request.user)
        wanted = [_checked(question, common, access) for question in questions[:granted]]
        return [*wanted, *(Throttled(wait=allowance.reset_s) for _ in questions[granted:] if allowance)]


class _Lines:
    """Results as JSON lines; frees the batch's place when it is closed, even if it was never read."""

    def __init__(self, results: Iterator[dict[str, Any]], current: Asking, place: ExitStack) -> None:
        self._results = results
        self._current = current
        self._renderer = Renderer()
        self._place = place

    def __iter__(self) -> Iterator[bytes]:
        for result in self._results:
            began = time.perf_counter()
            line = self._renderer.render(result) + b"\n"
            self._current.add("render", (time.perf_counter() - began) * 1e3)
            yield line

    def close(self) -> None:
        """Stop; calling it again has no effect."""
        self._place.close()


def _checked(question: Any, common: dict[str, Any], access: CollectionAccess) -> asking.AskRequest | Exception:
    if isinstance(question, str):
        question = {"question": question}
    serializer = QuestionSerializer(data={**common, **question} if isinstance(question, dict) else question)
    try:
        serializer.is_valid(raise_exception=True)
        return asking.checked(**serializer.validated_data, access=access)
    except (serializers.ValidationError, InvalidRequest) as error:
        return error


def _results(answers: Iterator[AskedAnswer | Exception], current: Asking) -> Iterator[dict[str, Any]]:
    for index, answer in enumerate(answers):
        if isinstance(answer, Exception):
            yield {"index": index, "problem": described_in_place(answer)}
            continue
        current.add("store", answer.serving_ms["store"])
        try:
            outcome = {"answer": answer_json(answer)}
        except Error as error:  # the database failed after storing the answer; later questions are still answered
            close_old_connections()
            outcome = {"problem": described_in_place(error)}
        yield {"index": index, **outcome}
