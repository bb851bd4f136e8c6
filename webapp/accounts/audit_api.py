"""The audit trail over REST, to be read: who did what, when, with which settings."""

from __future__ import annotations

from typing import Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.models import AuditEntry
from webapp.rest.base import OperatorView, problem_responses
from webapp.rest.lists import RecordList, page_example, page_response
from webapp.rest.parameters import by_text, by_time
from webapp.rest.serializers import RecordSerializer

_LIST: Final = RecordList(
    filters=(by_text("name", AuditEntry), by_text("action", AuditEntry), *by_time("at")), order=("-at", "-pk")
)
_ENTRY: Final = {
    "id": 41,
    "at": "2026-01-31T12:05:00.000000Z",
    "name": "stella",
    "action": "document.purge",
    "target": "1 document purged",
    "details": {"documents": ["d-3f1c9a5b7e2d4c60"], "receipt": "0a4a3a3e-6f0e-4b0c-9a37-0f2f6f5f1b9d"},
    "job": None,
}


class AuditEntrySerializer(RecordSerializer):
    """One action of a person, or of what acts by itself."""

    details = serializers.DictField(help_text="Settings, and what a person confirmed.")

    class Meta:
        model = AuditEntry
        fields = ["id", "at", "name", "action", "target", "details", "job"]


class AuditTrailView(OperatorView):
    """The audit trail."""

    @extend_schema(
        operation_id="audit_trail",
        summary="Read the audit trail",
        description="The latest first. Entries are never changed.",
        parameters=_LIST.parameters,
        responses={200: page_response("AuditEntryPage", AuditEntrySerializer), **problem_responses(400, 403)},
        examples=[page_example("Audit trail", _ENTRY, "audit-trail")],
    )
    def get(self, request: Request) -> Response:
        return _LIST.page(request, AuditEntry.objects.all(), AuditEntrySerializer)
