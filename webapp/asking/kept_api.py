"""What stays: answers that were given, blocks and articles. Whoever has them already is told so (ETag and 304)."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.cache import patch_cache_control
from django.utils.decorators import method_decorator
from django.views.decorators.http import conditional_page
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.articles import service as articles
from webapp.asking import examples
from webapp.asking import service as asking
from webapp.asking.history import own_answers
from webapp.asking.serializers import AnswerSerializer, ArticleSerializer, BlockSerializer, ListedAnswerSerializer
from webapp.models import AskedAnswer, Deployment
from webapp.rest.base import (
    PAGING,
    AskingView,
    Pages,
    PublicView,
    page_example,
    page_response,
    problem_responses,
)
from webapp.rest.parameters import by_id, by_time, by_truth, filtered, only_parameters, order_parameter, ordering

_ORDERS: Final = ("created_at", "latency_ms")
_FILTERS: Final = (
    by_id("deployment", Deployment),
    by_truth("answered", "answer_text__isnull", "Whether an answer was found.", inverted=True),
    *by_time(),
)
# A header field of the request, and the response to one who has what it names.
_UNLESS: Final = OpenApiParameter(
    "If-None-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="An `ETag` of this address."
)
_UNCHANGED: Final = {304: OpenApiResponse(description="What `If-None-Match` names is still what is here.")}


def answer_json(asked: AskedAnswer, without: list[str] | None = None) -> dict[str, Any]:
    """The answer object of API and command line: what was stored, or recomputed `without` some blocks."""
    reading = asking.without(asked, without).as_dict() if without else asked.reading
    return {
        "id": str(asked.pk),
        "created_at": asked.created_at.isoformat(),
        "without": without or [],
        # What rendering took is known only when this has been rendered, and this must stay as it was first given.
        "serving_ms": {stage: spent_ms for stage, spent_ms in asked.serving_ms.items() if stage != "render"},
        **reading,
    }


@method_decorator(conditional_page, name="dispatch")
class KeptView(PublicView):
    """What hardly ever changes: a copy is good as long as its ETag is. Whether one may read it is asked each time."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer, and say that the copy is for whoever asked, who shall ask before using it again."""
        response = super().dispatch(request, *args, **kwargs)
        patch_cache_control(response, private=True, no_cache=True)
        return response


class AnswersView(AskingView):
    """One's own answers."""

    @extend_schema(
        operation_id="answers",
        summary="List one's own answers",
        description="Of the account, or without one of the session that the cookie carries.",
        parameters=[*PAGING, order_parameter(_ORDERS), *(one.parameter for one in _FILTERS)],
        responses={200: page_response("AnswerPage", ListedAnswerSerializer), **problem_responses(400, 403)},
        examples=[page_example("Answers", examples.LISTED_ANSWER, "answers")],
    )
    def get(self, request: Request) -> Response:
        # A program with a token has no history in a browser, whatever cookies it brings along.
        own = AskedAnswer.objects.filter(asker=request.user.pk) if request.auth else own_answers(request)
        answers = filtered(request, own.defer("payload"), _FILTERS, also=("order",))
        pages = Pages(ordering(request, _ORDERS))
        page = pages.paginate_queryset(answers, request)
        return pages.get_paginated_response(ListedAnswerSerializer(page, many=True).data)


class AnswerView(KeptView):
    """A kept answer."""

    @extend_schema(
        operation_id="answer",
        summary="A kept answer",
        description="Stays the same for ever. With `without`, the answer had those blocks not been read: "
        "priors renormalised and everything recomputed in closed form; the kept answer does not change.",
        parameters=[
            OpenApiParameter(
                "without", OpenApiTypes.STR, many=True, description="Id of a block of the evidence to take away."
            ),
            _UNLESS,
        ],
        responses={200: AnswerSerializer, **_UNCHANGED, **problem_responses(400, 403, 404)},
        examples=[OpenApiExample("Answer", value=examples.ANSWER, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request, answer_id: UUID) -> Response:
        only_parameters(request, ("without",))
        asked = get_object_or_404(AskedAnswer, pk=answer_id)
        return Response(answer_json(asked, list(dict.fromkeys(request.query_params.getlist("without")))))


class BlockView(KeptView):
    """A block of a corpus."""

    @extend_schema(
        operation_id="block",
        summary="A block of a corpus",
        description="Looked for in the corpus that is being served, then in the others. Needs no model.",
        parameters=[_UNLESS],
        responses={200: BlockSerializer, **_UNCHANGED, **problem_responses(400, 403, 404)},
        examples=[OpenApiExample("Block", value=examples.BLOCK, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request, block_id: str) -> Response:
        only_parameters(request, ())
        return Response(block_json(_source(block_id)))


class ArticleView(KeptView):
    """The article of a block."""

    @extend_schema(
        operation_id="article",
        summary="The article of a block",
        description="The whole text of which the block is a piece, and where its blocks stand in it.",
        parameters=[_UNLESS],
        responses={200: ArticleSerializer, **_UNCHANGED, **problem_responses(400, 403, 404)},
        examples=[OpenApiExample("Article", value=examples.ARTICLE, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request, block_id: str) -> Response:
        only_parameters(request, ())
        source = _source(block_id)
        article, corpus = source.article, source.corpus
        return Response(
            {
                "title": article.title,
                "text": article.text,
                "url": article.url,
                "licence": corpus.licence,
                "attribution": corpus.attribution,
                "blocks": [
                    {"block_id": block.block_id, "section": block.section, "start": block.start, "end": block.end}
                    for block in articles.blocks(source)
                ],
                "corpus": f"{corpus.name}@{corpus.snapshot_id}",
            }
        )


def block_json(source: articles.Source) -> dict[str, Any]:
    """The block object of API and MCP."""
    block = source.block
    previous, following = articles.neighbours(source)
    return {
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


def _source(block_id: str) -> articles.Source:
    source = articles.find(block_id)
    if source is None:
        raise Http404
    return source
