"""Files to ingest over REST: list, add, remove."""

from __future__ import annotations

from typing import Any, Final

from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.rest.base import OperatorView
from webapp.rest.operation import FORM, given, operation
from webapp.sources import service as sources
from webapp.sources.serializers import NewSourceFileSerializer, SourceFileSerializer

_FILE: Final[dict[str, Any]] = {"name": "handbook.jsonl", "size_bytes": 1482133}  # an example


class SourceFilesView(OperatorView):
    parser_classes = [MultiPartParser]

    @operation(
        "source_files",
        "List files to ingest",
        "All of them, by name. A job of the kind `ingest` names one as `file`.",
        gives=SourceFileSerializer(many=True),
        examples=[given("Files", _FILE)],
    )
    def get(self, _request: Request) -> Response:
        return Response(SourceFileSerializer(sources.sources(), many=True).data)

    @operation(
        "add_source_file",
        "Add a file to ingest",
        "It is stored whole or not at all; an ingest reads it. 422: its name cannot be one, or another file has it.",
        takes={FORM: NewSourceFileSerializer},
        gives={201: SourceFileSerializer},
        problems=[422, 507],
        examples=[given("File", _FILE, 201)],
    )
    def post(self, _request: Request, body: dict[str, Any]) -> Response:
        file = body["file"]
        made = sources.add(file.name, file.chunks(), replace=body["replace"], by=self.operator)
        return Response(SourceFileSerializer(made).data, status=201)


class SourceFileView(OperatorView):
    @operation(
        "remove_source_file",
        "Remove a file to ingest",
        "What was ingested of it stays. 422: it is being ingested, or a schedule reads it again.",
        gives=None,
        problems=[422],
    )
    def delete(self, _request: Request, name: str) -> Response:
        sources.remove(name, by=self.operator)
        return Response(status=204)
