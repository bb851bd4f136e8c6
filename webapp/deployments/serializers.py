"""Deployments in the API."""

from __future__ import annotations

from webapp.models import Deployment, IndexGeneration, ModelVersion
from webapp.rest.serializers import (
    RecordIdField,
    RecordSerializer,
    StrictCharField,
    StrictSerializer,
    person_field,
)


class DeploymentSerializer(RecordSerializer):
    """A pair of model and index that answers questions, or did."""

    activated_by = person_field()

    class Meta:
        model = Deployment
        fields = ["id", "model", "index", "is_active", "activated_at", "deactivated_at", "activated_by", "note"]


class ConfirmationSerializer(StrictSerializer):
    """The confirmation of doubts."""

    confirm = StrictCharField(
        default="",
        allow_blank=True,
        help_text="`confirm` of the 409 whose `doubts` you have read: deploy nevertheless. It is recorded.",
    )


class NewDeploymentSerializer(ConfirmationSerializer):
    """A pair to deploy."""

    index = RecordIdField(IndexGeneration, help_text="Id of an index.")
    model = RecordIdField(
        ModelVersion,
        default=None,
        allow_null=True,
        help_text="Id of a model of the same `block_hash`; if not given, the one that built the index.",
    )
    note = StrictCharField(default="", allow_blank=True, max_length=200, help_text="The reason, shown in the history.")
