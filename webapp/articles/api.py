"""Blocks and articles over REST."""

from __future__ import annotations

from typing import Any, Final

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.access.collections import access_of
from webapp.articles import service as articles
from webapp.articles.serializers import ArticleSerializer, BlockSerializer
from webapp.asking.examples import ANSWER
from webapp.rest.base import UNCHANGED, UNLESS, CachedView
from webapp.rest.operation import given, operation

_EVIDENCE: Final = ANSWER["evidence"][0]
_RIGHTS: Final = {"licence": "CC BY-SA 4.0", "attribution": "Wikipedia contributors"}
_PLACE: Final = {"section": _EVIDENCE["section"], "start": 0, "end": len(_EVIDENCE["text"])}

_BLOCK: Final[dict[str, Any]] = {
    **{name: _EVIDENCE[name] for name in ("block_id", "title", "text", "url")},
    **_RIGHTS,
    "collection": _EVIDENCE["collection"],
    **_PLACE,
    "previous": None,
    "next": None,
    "corpus": ANSWER["corpus"],
}

_ARTICLE: Final[dict[str, Any]] = {
    **{name: _EVIDENCE[name] for name in ("title", "text", "url")},
    **_RIGHTS,
    "blocks": [{"block_id": _EVIDENCE["block_id"], **_PLACE}],
    "corpus": ANSWER["corpus"],
}


class BlockByIdView(CachedView):
    @operation(
        "block",
        "A block of a corpus",
        "Searched for in the deployed corpus, then in the others. Needs no model.",
        parameters=[UNLESS],
        gives={200: BlockSerializer, **UNCHANGED},
        examples=[given("Block", _BLOCK)],
    )
    def get(self, request: Request, block_id: str) -> Response:
        return Response(BlockSerializer(_source(request, block_id)).data)


class ArticleView(CachedView):
    @operation(
        "article",
        "The article of a block",
        "The whole text of the article, and the positions of its blocks.",
        parameters=[UNLESS],
        gives={200: ArticleSerializer, **UNCHANGED},
        examples=[given("Article", _ARTICLE)],
    )
    def get(self, request: Request, block_id: str) -> Response:
        return Response(ArticleSerializer(_source(request, block_id)).data)


def _source(request: Request, block_id: str) -> articles.ArticleBlock:
    source = articles.find(block_id, hidden=access_of(request.user).hidden)
    if source is None:
        raise Http404
    return source
