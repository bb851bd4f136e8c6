"""Artefacts, from corpora to deployments. The console changes them, and records what it does."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from webapp.admin.readonly import ReadOnlyAdmin
from webapp.models import (
    CorpusSnapshot,
    Deployment,
    Evaluation,
    IndexGeneration,
    ModelVersion,
    QuestionSet,
    SpanSet,
)


@admin.register(CorpusSnapshot)
class CorpusSnapshotAdmin(ReadOnlyAdmin):
    list_display = ["name", "snapshot_id", "source", "language", "articles", "blocks", "created_at"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[CorpusSnapshot]:
        return CorpusSnapshot.every.all()  # including those whose files were removed


@admin.register(ModelVersion)
class ModelVersionAdmin(ReadOnlyAdmin):
    list_display = ["name", "version", "model_hash", "parent", "pinned", "created_at"]
    list_select_related = ["parent"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ModelVersion]:
        return ModelVersion.every.all()  # including those whose files were removed


@admin.register(IndexGeneration)
class IndexGenerationAdmin(ReadOnlyAdmin):
    list_display = ["generation", "model", "corpus", "rows", "dim", "pinned", "removed_at", "created_at"]
    list_select_related = ["model", "corpus"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[IndexGeneration]:
        return IndexGeneration.every.all()  # including those whose files were removed


@admin.register(SpanSet)
class SpanSetAdmin(ReadOnlyAdmin):
    list_display = ["tagger", "corpus", "spans", "blocks", "created_at"]
    list_select_related = ["corpus"]


@admin.register(QuestionSet)
class QuestionSetAdmin(ReadOnlyAdmin):
    list_display = ["name", "purpose", "questions", "origin", "created_by", "created_at"]
    list_select_related = ["created_by"]


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    list_display = ["model", "questions", "retriever", "k", "sample", "exact_match", "recall_at_5", "created_at"]
    list_select_related = ["model", "questions"]


@admin.register(Deployment)
class DeploymentAdmin(ReadOnlyAdmin):
    list_display = ["pk", "model", "index", "is_active", "activated_at", "deactivated_at", "activated_by", "note"]
    list_select_related = ["model", "index", "index__model", "index__corpus", "activated_by"]
