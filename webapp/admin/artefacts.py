"""Corpora, models, indexes and deployments. To deploy, use /manage/, which says what it does."""

from django.contrib import admin

from webapp.admin.readonly import ReadOnlyAdmin
from webapp.models import CorpusSnapshot, Deployment, IndexGeneration, ModelVersion


@admin.register(CorpusSnapshot)
class CorpusSnapshotAdmin(ReadOnlyAdmin):
    list_display = ["name", "snapshot_id", "source", "language", "articles", "blocks", "created_at"]


@admin.register(ModelVersion)
class ModelVersionAdmin(ReadOnlyAdmin):
    list_display = ["name", "version", "model_hash", "parent", "created_at"]


@admin.register(IndexGeneration)
class IndexGenerationAdmin(ReadOnlyAdmin):
    list_display = ["generation", "model", "corpus", "rows", "dim", "created_at"]
    list_select_related = ["model", "corpus"]


@admin.register(Deployment)
class DeploymentAdmin(ReadOnlyAdmin):
    list_display = ["pk", "model", "index", "is_active", "activated_at", "deactivated_at", "activated_by", "note"]
    list_select_related = ["model", "index", "index__model", "index__corpus", "activated_by"]
