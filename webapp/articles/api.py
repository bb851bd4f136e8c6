"""Blocks and articles over REST."""

from __future__ import annotations

from django.http import Http404
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.access.collections import access_of
from webapp.articles import examples
from webapp.articles import service as articles
from webapp.articles.serializers import ArticleSerializer, BlockSerializer
from webapp.rest.base import problem_responses
from webapp.rest.parameters import only_parameters
from webapp.rest.unchanging import UNCHANGED, UNLESS, CachedView


class BlockByIdView(CachedView):
    """A block of a corpus."""

    @extend_schema(
        operation_id="block",
        summary="A block of a corpus",
        description="Searched for in the deployed corpus, then in the others. Needs no model.",
        parameters=[UNLESS],
        responses={200: BlockSerializer, **UNCHANGED, **problem_responses(400, 403, 404)},
        examples=[OpenApiExample("Block", value=examples.BLOCK, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request, block_id: str) -> Response:
        only_parameters(request, ())
        return Response(BlockSerializer(_source(request, block_id)).data)


class ArticleView(CachedView):
    """The article of a block."""

    @extend_schema(
        operation_id="article",
        summary="The article of a block",
        description="The whole text of the article, and the positions of its blocks.",
        parameters=[UNLESS],
        responses={200: ArticleSerializer, **UNCHANGED, **problem_responses(400, 403, 404)},
        examples=[OpenApiExample("Article", value=examples.ARTICLE, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request, block_id: str) -> Response:
        only_parameters(request, ())
        return Response(ArticleSerializer(_source(request, block_id)).data)


def _source(request: Request, block_id: str) -> articles.ArticleBlock:
    source = articles.find(block_id, hidden=access_of(request.user).hidden)
    if source is None:
        raise Http404
    return source
