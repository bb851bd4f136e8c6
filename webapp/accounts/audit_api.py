"""The audit trail over REST, to be read: who did what, when, with which settings."""

from __future__ import annotations

from typing import Final

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request

from webapp.models import AuditEntry
from webapp.rest.base import OperatorView
from webapp.rest.lists import RecordList
from webapp.rest.parameters import by_text, by_time
from webapp.rest.serializers import RecordSerializer

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


_LIST: Final = RecordList(
    filters=(by_text("name", AuditEntry), by_text("action", AuditEntry), *by_time("at")),
    order=("-at", "-pk"),
    address="audit-trail",
    kind=AuditEntrySerializer,
    example=_ENTRY,
    page_name="AuditEntryPage",
)


class AuditTrailView(OperatorView):
    @_LIST.operation("audit_trail", "Read the audit trail", "The latest first. Entries are never changed.")
    def get(self, _request: Request) -> QuerySet[AuditEntry]:
        return AuditEntry.objects.all()
