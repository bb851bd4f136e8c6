"""Deployments in the API."""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from rest_framework import serializers

from webapp.models import Deployment, IndexGeneration, ModelVersion
from webapp.rest.serializers import (
    RecordSerializer,
    StrictCharField,
    StrictIntegerField,
    StrictSerializer,
    person_field,
)


class DeploymentSerializer(RecordSerializer):
    """A pair of model and index that answers questions, or did."""

    activated_by = person_field()

    class Meta:
        model = Deployment
        fields = ["id", "model", "index", "is_active", "activated_at", "deactivated_at", "activated_by", "note"]


class _RecordField(StrictIntegerField):
    """The id of a record, converted to the record."""

    def __init__(self, record: type[Model], **options: Any) -> None:
        super().__init__(**options)
        self._record = record

    def to_internal_value(self, data: Any) -> Any:
        number = super().to_internal_value(data)
        found = self._record._default_manager.filter(pk=number).first() if 0 < number < 2**63 else None
        if found is None:
            raise serializers.ValidationError(f"There is no {self._record._meta.verbose_name} {number}.")
        return found


class ConfirmationSerializer(StrictSerializer):
    """The confirmation of doubts."""

    confirm = StrictCharField(
        default="",
        allow_blank=True,
        help_text="`confirm` of the 409 whose `doubts` you have read: deploy nevertheless. It is recorded.",
    )


class NewDeploymentSerializer(ConfirmationSerializer):
    """A pair to deploy."""

    index = _RecordField(IndexGeneration, help_text="Id of an index.")
    model = _RecordField(
        ModelVersion,
        default=None,
        allow_null=True,
        help_text="Id of a model of the same `block_hash`; if not given, the one that built the index.",
    )
    note = StrictCharField(default="", allow_blank=True, max_length=200, help_text="The reason, shown in the history.")
