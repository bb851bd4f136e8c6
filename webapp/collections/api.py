"""Collections over REST: those that a caller may look in."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.access.collections import access_of
from webapp.collections import service
from webapp.collections.service import ListedCollection
from webapp.rest.base import PublicView, problem_responses
from webapp.rest.parameters import only_parameters

_EXAMPLE: Final = {
    "name": "travel",
    "title": "Travel guides",
    "description": "What our travellers wrote.",
    "private": False,
    "weight": 1.0,
    "documents": 12,
    "languages": ["en", "fi"],
    "tags": ["cities"],
    "since": "2025-03-01",
    "until": "2026-01-31",
}


class CollectionSerializer(serializers.Serializer[Any]):
    """A collection, and what its documents can be filtered by."""

    name = serializers.CharField(help_text="As questions name it.")
    title = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    private = serializers.BooleanField(help_text="Whether only some may read it.")
    weight = serializers.FloatField(help_text="What the prior of its blocks is multiplied by before it is normalised.")
    documents = serializers.IntegerField()
    languages = serializers.ListField(child=serializers.CharField())
    tags = serializers.ListField(child=serializers.CharField())
    since = serializers.DateField(allow_null=True, help_text="The earliest date of a document; null: none has one.")
    until = serializers.DateField(allow_null=True, help_text="The latest.")


class CollectionsView(PublicView):
    """The collections of the corpus that answers."""

    @extend_schema(
        operation_id="collections",
        summary="List collections",
        description="Those that the caller may look in.",
        responses={200: CollectionSerializer(many=True), **problem_responses(400, 403)},
        examples=[OpenApiExample("Collection", value=_EXAMPLE, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request) -> Response:
        only_parameters(request, ())
        return Response([collection_json(one) for one in service.listed(access_of(request.user).hidden)])


def collection_json(one: ListedCollection) -> dict[str, Any]:
    """The collection object of API and MCP."""
    facts, record = one.facts, one.record
    return {
        "name": one.name,
        "title": one.title,
        "description": record.description if record else "",
        "private": record.private if record else False,
        "weight": record.weight if record else 1.0,
        "documents": one.documents,
        "languages": sorted(facts.languages) if facts else [],
        "tags": sorted(facts.tags) if facts else [],
        "since": facts.since.isoformat() if facts and facts.since else None,
        "until": facts.until.isoformat() if facts and facts.until else None,
    }
