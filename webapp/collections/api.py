"""Collections over REST: those that a caller may look in, and, for operators, what is recorded of one."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.auth.models import Group
from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.access.collections import access_of
from webapp.collections import service as collections
from webapp.collections.service import CollectionSettings
from webapp.models import Collection
from webapp.models.collection import LEAST_WEIGHT, LONGEST_DESCRIPTION, LONGEST_TITLE, MOST_WEIGHT
from webapp.rest.base import DocumentsReadView, OperatorView
from webapp.rest.operation import given, operation, sent
from webapp.rest.parameters import truth
from webapp.rest.serializers import (
    RecordSerializer,
    StrictBooleanField,
    StrictCharField,
    StrictFloatField,
    StrictSerializer,
)

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
_SETTINGS: Final = {
    "title": "The board’s papers",
    "description": "Minutes and plans.",
    "private": True,
    "groups": ["board members"],
    "weight": 1.5,
}
_PUBLISHED: Final = {"private": False, "more_readers": True}
_RECORDED: Final = given("Collection", {"name": "board", **_SETTINGS}, 200, 201)


class _SortedField(serializers.ListField):
    child = serializers.CharField()

    def to_representation(self, data: Any) -> list[Any]:
        return super().to_representation(sorted(data))


class CollectionSerializer(serializers.Serializer[Any]):
    """A collection, and what its documents can be filtered by."""

    name = serializers.CharField(source="record.name", help_text="As questions name it.")
    title = serializers.CharField(source="record")
    description = serializers.CharField(source="record.description", allow_blank=True)
    private = serializers.BooleanField(source="record.private", help_text="Whether only some may read it.")
    weight = serializers.FloatField(
        source="record.weight", help_text="What the prior of its blocks is multiplied by before it is normalised."
    )
    documents = serializers.IntegerField(source="facts.documents")
    languages = _SortedField(source="facts.languages")
    tags = _SortedField(source="facts.tags")
    since = serializers.DateField(
        source="facts.since", allow_null=True, help_text="The earliest date of a document; null: none has one."
    )
    until = serializers.DateField(source="facts.until", allow_null=True, help_text="The latest.")


class RecordedCollectionSerializer(RecordSerializer):
    """What is recorded of a collection. title: empty: its name. private: only admins and the groups read it."""

    groups: serializers.SlugRelatedField[Group] = serializers.SlugRelatedField(
        slug_field="name", read_only=True, many=True
    )

    class Meta:
        model = Collection
        fields = ["name", "title", "description", "private", "groups", "weight"]


class CollectionSettingsSerializer(StrictSerializer):
    """What is to hold of a collection. What is not given stays; a new one is public then, and has weight 1."""

    title = StrictCharField(
        required=False, allow_blank=True, help_text=f"At most {LONGEST_TITLE} characters. Empty: its name."
    )
    description = StrictCharField(
        required=False, allow_blank=True, help_text=f"At most {LONGEST_DESCRIPTION:,} characters."
    )
    private = StrictBooleanField(required=False, help_text="Whether only admins and the groups read it.")
    groups = serializers.ListField(
        child=StrictCharField(),
        required=False,
        help_text="Names of the groups that read it; only a private one has any. "
        "The group curators is a role, too: its members review feedback and see evaluations.",
    )
    more_readers = StrictBooleanField(
        default=False,
        help_text="Whether more people may read a private one, and answers from it, than now; it is refused otherwise "
        "(409).",
    )
    weight = StrictFloatField(
        required=False,
        help_text="What the prior of its blocks is multiplied by before it is normalised: "
        f"{LEAST_WEIGHT} to {MOST_WEIGHT:,.0f}.",
    )


class CollectionsView(DocumentsReadView):
    """The collections of the corpus that answers."""

    @operation(
        "collections",
        "List collections",
        "Those that the caller may look in.",
        gives=CollectionSerializer(many=True),
        examples=[given("Collection", _EXAMPLE)],
    )
    def get(self, request: Request) -> Response:
        return Response(CollectionSerializer(collections.listed(access_of(request.user).hidden), many=True).data)


class CollectionView(OperatorView):
    """One collection, by its name. Documents have it, whether anything is recorded of it or not."""

    @operation(
        "collection",
        "What is recorded of a collection",
        "404 where nothing is: then everybody who may ask reads its documents, with weight 1.",
        gives=RecordedCollectionSerializer,
        examples=[_RECORDED],
    )
    def get(self, request: Request, name: str) -> Response:
        record = collections.recorded(name)
        if record is None:
            raise Http404
        return Response(RecordedCollectionSerializer(record).data)

    @operation(
        "set_collection",
        "Set up a collection",
        "A new one, or one that documents have already. The next question goes by it. Make a private one "
        "before you add documents to it. What lets more people read a private one, as `private` "
        "false or another group does, is refused (409) without `more_readers`.",
        takes=CollectionSettingsSerializer,
        gives={
            200: RecordedCollectionSerializer,
            201: OpenApiResponse(RecordedCollectionSerializer, description="Nothing was recorded of it before."),
        },
        problems=[409],
        examples=[sent("Settings", _SETTINGS), sent("For everybody", _PUBLISHED), _RECORDED],
    )
    def put(self, _request: Request, name: str, body: dict[str, Any]) -> Response:
        if "groups" in body:
            body["groups"] = tuple(body["groups"])
        more_readers = body.pop("more_readers")
        record, is_new = collections.save(name, CollectionSettings(**body), by=self.operator, more_readers=more_readers)
        return Response(RecordedCollectionSerializer(record).data, status=201 if is_new else 200)

    @operation(
        "remove_collection",
        "Forget what is recorded of a collection",
        "Its documents stay and keep its name, and everybody who may ask reads them, with weight 1. A "
        "private one is therefore refused (409) without `public`.",
        parameters=[
            OpenApiParameter(
                "public", OpenApiTypes.BOOL, description="Whether everybody may read a private one and answers from it."
            )
        ],
        gives=None,
        problems=[409],
    )
    def delete(self, request: Request, name: str) -> Response:
        try:
            collections.remove(name, by=self.operator, public=truth(request, "public"))
        except Collection.DoesNotExist:
            raise Http404 from None
        return Response(status=204)
