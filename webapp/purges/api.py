"""Purges over REST: forget documents for good, and read the receipts."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from realm_core.corpus.records import LONGEST_ID
from webapp.documents.inputs import MOST_DOCUMENTS
from webapp.documents.viewing import DocumentMissing
from webapp.models import IndexGeneration, Purge
from webapp.purges import service as purging
from webapp.purges.remaining import HeldFolder, RemovalStage, held_folders
from webapp.refusals import FieldError, InvalidRequest
from webapp.rest.base import OperatorView
from webapp.rest.lists import RecordList
from webapp.rest.operation import given, operation, sent
from webapp.rest.parameters import by_time
from webapp.rest.serializers import RecordIdField, StrictCharField, StrictSerializer
from webapp.rest.throttle import EditThrottle

_NEW_PURGE: Final[dict[str, Any]] = {"documents": ["d-3f1c9a5b7e2d4c60"]}

_PURGE: Final[dict[str, Any]] = {
    "id": "0a4a3a3e-6f0e-4b0c-9a37-0f2f6f5f1b9d",
    "at": "2026-01-31T12:05:00.000000Z",
    "documents": ["d-3f1c9a5b7e2d4c60"],
    "blocks": 1,
    "answers": 1,
    "answer_ids": ["0b6f2f5e-3a64-4d0c-9a51-6a0f3a1c7c55"],
    "files": [
        {
            "path": "living/vital-en/segments/4c1b7d2a9e5f6a30/articles.arrow",
            "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "successor": None,
            "successor_sha256": None,
        }
    ],
    "remaining": ["corpora/vital-en/5d41402abc4b2a76", "indexes/5d41402abc4b2a76-b9719d911017c592"],
    "holding": [
        {"path": "corpora/vital-en/5d41402abc4b2a76", "stage": "answers", "index": None, "corpus": 1},
        {"path": "indexes/5d41402abc4b2a76-b9719d911017c592", "stage": "answers", "index": 1, "corpus": None},
    ],
}


class NewPurgeSerializer(StrictSerializer):
    """Documents to be forgotten, all or none."""

    documents = serializers.ListField(
        child=StrictCharField(max_length=LONGEST_ID),
        min_length=1,
        max_length=MOST_DOCUMENTS,
        help_text="Their ids; those of documents that were removed earlier, too.",
    )
    index = RecordIdField(
        IndexGeneration,
        required=False,
        help_text="Id of an index of the corpus that they are in, if that is not the one that answers.",
    )


class PurgedFileSerializer(serializers.Serializer[Any]):
    """A file that is no more."""

    path = serializers.CharField()
    sha256 = serializers.CharField()
    successor = serializers.CharField(allow_null=True, help_text="The file that took its place; null: none did.")
    successor_sha256 = serializers.CharField(allow_null=True)


class HeldFolderSerializer(serializers.Serializer[Any]):
    """A folder that held documents when they were purged."""

    path = serializers.CharField()
    stage = serializers.ChoiceField(
        choices=[one.value for one in RemovalStage],
        help_text="answers: fold its index (`POST /api/v1/jobs` with the kind fold); removable: remove it (`DELETE` of "
        "the index, then of the corpus); used: something else needs it; removed: it is no more.",
    )
    index = serializers.SerializerMethodField(help_text="The id of the index that it is.")
    corpus = serializers.SerializerMethodField(help_text="The id of the corpus that it is.")

    def get_index(self, folder: HeldFolder) -> int | None:
        return folder.record.pk if folder.record is not None and folder.is_index else None

    def get_corpus(self, folder: HeldFolder) -> int | None:
        return folder.record.pk if folder.record is not None and not folder.is_index else None


class PurgeSerializer(serializers.ModelSerializer[Purge]):
    """The receipt of a purge."""

    documents = serializers.ListField(child=serializers.CharField(), source="document_ids")
    answer_ids = serializers.ListField(
        child=serializers.UUIDField(),
        help_text="Ids of these answers, which may have been removed since; [] where the receipt does not say them.",
    )
    files = PurgedFileSerializer(
        many=True, help_text="Those of a folder in `remaining` are added when that is removed."
    )
    remaining = serializers.ListField(
        child=serializers.CharField(),
        help_text="Folders that still hold documents: those of the corpus that they came with. Nothing is answered "
        "from them, and no address shows their passages.",
    )
    holding = serializers.SerializerMethodField(help_text="The same folders as they are now.")

    class Meta:
        model = Purge
        fields = ("id", "at", "documents", "blocks", "answers", "answer_ids", "files", "remaining", "holding")

    @extend_schema_field(HeldFolderSerializer(many=True))
    def get_holding(self, purge: Purge) -> Any:
        return HeldFolderSerializer(held_folders(purge), many=True).data


_LIST: Final = RecordList(
    filters=by_time("at"),
    order=("-at", "pk"),
    address="purges",
    kind=PurgeSerializer,
    example=_PURGE,
    page_name="PurgePage",
)


class PurgesView(OperatorView):
    throttle_classes = [EditThrottle]

    @_LIST.operation("purges", "List purges", "The latest first.")
    def get(self, _request: Request) -> QuerySet[Purge]:
        return Purge.objects.all()

    @operation(
        "purge_documents",
        "Forget documents for good",
        "Takes their text out of the corpus, out of its earlier states and out of the evidence of kept "
        "answers, which become what their other passages say. All or none; it cannot be undone. The receipt names the "
        "files that are no more, and those that still hold a document.",
        takes=NewPurgeSerializer,
        gives={201: PurgeSerializer},
        problems=[409, 429],
        examples=[sent("Documents", _NEW_PURGE), given("Receipt", _PURGE, 201)],
    )
    def post(self, _request: Request, body: dict[str, Any]) -> Response:
        try:
            purge = purging.purge(body["documents"], by=self.operator, index=body.get("index"))
        except DocumentMissing as error:
            raise InvalidRequest(FieldError("documents", str(error))) from None
        return self.made(PurgeSerializer, purge, "api-purge")


class PurgeView(OperatorView):
    @operation(
        "purge",
        "The receipt of a purge",
        gives=PurgeSerializer,
        examples=[given("Receipt", _PURGE)],
    )
    def get(self, request: Request, purge_id: UUID) -> Response:
        return Response(PurgeSerializer(get_object_or_404(Purge, pk=purge_id)).data)
