"""Asking over REST: questions, masked sentences, kept answers, blocks; and the API's description."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from webapp.api import examples
from webapp.api.authentication import AUTHENTICATION
from webapp.api.base import AskingView, PublicView, checked, only_parameters, problem_responses
from webapp.api.serializers import (
    AnswerSerializer,
    BlockSerializer,
    FillingSerializer,
    QuestionSerializer,
    RetrievalSerializer,
    SentenceSerializer,
)
from webapp.api.throttle import AskThrottle
from webapp.models import AskedAnswer
from webapp.services import articles, asking, filling
from webapp.services.history import asker_key


def answer_json(asked: AskedAnswer, without: list[str] | None = None) -> dict[str, Any]:
    """The answer object of API and command line: what was stored, or recomputed `without` some blocks."""
    reading = asking.without(asked, without).as_dict() if without else asked.payload
    return {"id": str(asked.pk), "created_at": asked.created_at.isoformat(), "without": without or [], **reading}


class AskView(AskingView):
    """Ask a question."""

    throttle_classes = [AskThrottle]

    @extend_schema(
        operation_id="ask",
        summary="Ask a question",
        description="Retrieves the k best blocks, reads them and keeps the answer; `Location` is its address.",
        request=QuestionSerializer,
        responses={201: AnswerSerializer, **problem_responses(400, 403, 413, 415, 422, 429, 503)},
        examples=[
            OpenApiExample("Question", value=examples.QUESTION, request_only=True),
            OpenApiExample("Answer", value=examples.ANSWER, response_only=True, status_codes=["201"]),
            OpenApiExample("Invalid", value=examples.PROBLEM, response_only=True, status_codes=["400"]),
        ],
    )
    def post(self, request: Request) -> Response:
        asked = asking.ask(
            **checked(request, QuestionSerializer),
            asker=request.user,
            session_key=asker_key(request),
        )
        location = reverse("api-answer", args=[asked.pk], request=request)
        return Response(answer_json(asked), status=201, headers={"Location": location})


class RetrieveView(AskingView):
    """Find blocks without reading them."""

    throttle_classes = [AskThrottle]

    @extend_schema(
        operation_id="retrieve",
        summary="Find blocks without reading them",
        request=QuestionSerializer,
        responses={200: RetrievalSerializer, **problem_responses(400, 403, 413, 415, 422, 429, 503)},
        examples=[OpenApiExample("Question", value=examples.QUESTION, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        return Response(asdict(asking.retrieve(**checked(request, QuestionSerializer))))


class FillView(AskingView):
    """Fill a masked sentence."""

    throttle_classes = [AskThrottle]

    @extend_schema(
        operation_id="fill",
        summary="Fill the masks of a sentence",
        description="What a pre-trained model expects behind each [MASK]: without retrieval (from the null block), "
        "from the best block, and from the null block and the k − 1 best blocks together. Nothing is kept. A model "
        "that was not pre-trained answers questions only (409).",
        request=SentenceSerializer,
        responses={200: FillingSerializer, **problem_responses(400, 403, 409, 413, 415, 422, 429, 503)},
        examples=[
            OpenApiExample("Sentence", value=examples.SENTENCE, request_only=True),
            OpenApiExample("Filling", value=examples.FILLING, response_only=True, status_codes=["200"]),
            OpenApiExample("Not possible", value=examples.CANNOT_FILL, response_only=True, status_codes=["409"]),
        ],
    )
    def post(self, request: Request) -> Response:
        return Response(filling.fill(**checked(request, SentenceSerializer)).as_dict())


class AnswerView(PublicView):
    """A kept answer."""

    @extend_schema(
        operation_id="answer",
        summary="A kept answer",
        description="Stays the same for ever. With `without`, the answer had those blocks not been read: "
        "priors renormalised and everything recomputed in closed form; the kept answer does not change.",
        parameters=[
            OpenApiParameter(
                "without", OpenApiTypes.STR, many=True, description="Id of a block of the evidence to take away."
            )
        ],
        responses={200: AnswerSerializer, **problem_responses(400, 404)},
        examples=[OpenApiExample("Answer", value=examples.ANSWER, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request, answer_id: UUID) -> Response:
        only_parameters(request, ("without",))
        asked = get_object_or_404(AskedAnswer, pk=answer_id)
        return Response(answer_json(asked, list(dict.fromkeys(request.query_params.getlist("without")))))


class BlockView(PublicView):
    """A block of a corpus."""

    @extend_schema(
        operation_id="block",
        summary="A block of a corpus",
        description="Looked for in the corpus that is being served, then in the others. Needs no model.",
        responses={200: BlockSerializer, **problem_responses(404)},
    )
    def get(self, _request: Request, block_id: str) -> Response:
        source = articles.find(block_id)
        if source is None:
            raise Http404
        block = source.block
        previous, following = articles.neighbours(source)
        return Response(
            {
                "block_id": block.block_id,
                "title": block.title,
                "text": block.text,
                "section": block.section,
                "url": block.url,
                "start": block.start,
                "end": block.end,
                "previous": previous,
                "next": following,
                "corpus": f"{source.corpus.name}@{source.corpus.snapshot_id}",
            }
        )


class SchemaView(SpectacularAPIView):
    """The OpenAPI description; `?format=json` for JSON."""

    authentication_classes = AUTHENTICATION


class DocsView(SpectacularSwaggerSplitView):
    """The browsable documentation. Its script is a file of its own, as the Content-Security-Policy wants."""

    authentication_classes = AUTHENTICATION
    template_name = "manage/api_docs.html"
