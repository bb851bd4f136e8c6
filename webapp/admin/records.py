"""What the site writes: artefacts, jobs, processes, answers, the audit trail. All can be seen, none is changed here."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from webapp.admin.audited import Audited
from webapp.models import (
    ApiToken,
    AskedAnswer,
    AuditEntry,
    CorpusSnapshot,
    Deployment,
    DeviceLease,
    Evaluation,
    EvidenceBlock,
    Feedback,
    IndexGeneration,
    Job,
    ModelVersion,
    QuestionSet,
    RetentionRule,
    Schedule,
    Scheduler,
    SpanSet,
    WebProcess,
    Worker,
)


class ReadOnly:
    """Records of what happened: only the site writes them."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(ReadOnly, Audited):
    """A page of such records, also of those whose files were removed."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        everything: QuerySet[Any] = self.model._base_manager.all()
        return everything


class EvidenceInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg]  # not generic at run time
    """Shown with the answer, and deleted with it."""

    model = EvidenceBlock
    template = "admin/evidence.html"


@admin.register(AskedAnswer)
class AskedAnswerAdmin(ReadOnlyAdmin):
    """Questions and answers. They may be deleted (a person may ask for it), never changed."""

    list_display = ["question", "answer_text", "probability", "k", "latency_ms", "created_at"]
    search_fields = ["question", "answer_text"]
    date_hierarchy = "created_at"
    inlines = [EvidenceInline]
    deletes_with_it = (Feedback,)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("webapp.delete_askedanswer")

    def called(self, record: AskedAnswer) -> str:
        return str(record.pk)  # not the question: if it is deleted, it must not remain in the audit trail


def _show(record: type[Model], columns: str, *, related: str = "", **more: Any) -> None:
    """List records by these columns. related: other records that the columns name. more: options of a ModelAdmin."""
    more["list_select_related"] = related.split() or False
    admin.site.register(record, ReadOnlyAdmin, list_display=columns.split(), **more)


_show(CorpusSnapshot, "name snapshot_id source language articles blocks created_at")
_show(ModelVersion, "name version model_hash parent pinned created_at", related="parent")
_show(IndexGeneration, "generation model corpus rows dim pinned removed_at created_at", related="model corpus")
_show(SpanSet, "tagger corpus spans blocks created_at", related="corpus")
_show(QuestionSet, "name purpose questions origin created_by created_at", related="created_by")
_show(Evaluation, "model questions retriever k sample exact_match recall_at_5 created_at", related="model questions")
_show(
    Deployment,
    "pk model index is_active activated_at deactivated_at activated_by note",
    related="model index index__model index__corpus activated_by",
)
_show(
    Job,
    "id kind queue state attempt created_by created_at started_at finished_at",
    related="created_by",
    list_filter=["kind", "queue", "state"],
)
_show(Worker, "name queues slots started_at seen_at")
_show(
    WebProcess,
    "name state deployment reason started_at seen_at",
    related="deployment deployment__model deployment__index",
)
_show(Scheduler, "name host started_at seen_at")
_show(DeviceLease, "device place job taken_at", related="job")
_show(Schedule, "corpus_name model trigger hours at enabled due_at last_run_at", related="model")
_show(RetentionRule, "pk enabled generations run_days changed_at")
_show(AuditEntry, "at name action target", list_filter=["action"], date_hierarchy="at")
_show(Feedback, "answer right better_answer by changed_at", related="answer by", exclude=["session_key"])
_show(
    ApiToken,
    "start name user scopes created_at expires_at last_used_at revoked_at",
    related="user",
    exclude=["digest"],
)
