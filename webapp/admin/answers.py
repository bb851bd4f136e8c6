"""Questions and answers. They may be deleted (a person may ask for it), never changed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from webapp.admin.readonly import ReadOnly, ReadOnlyAdmin
from webapp.models import AskedAnswer, EvidenceBlock, Feedback


class EvidenceInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg]  # not generic at run time
    """Shown with the answer, and deleted with it."""

    model = EvidenceBlock
    template = "admin/evidence.html"


@admin.register(AskedAnswer)
class AskedAnswerAdmin(ReadOnlyAdmin):
    list_display = ["question", "answer_text", "probability", "k", "latency_ms", "created_at"]
    search_fields = ["question", "answer_text"]
    date_hierarchy = "created_at"
    inlines = [EvidenceInline]
    deletes_with_it = (Feedback,)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("webapp.delete_askedanswer")

    def called(self, record: AskedAnswer) -> str:
        return str(record.pk)  # not the question: if it is deleted, it must not remain in the audit trail
