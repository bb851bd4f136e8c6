"""Fields and serialisers that all subjects share.

Requests are checked strictly: a field of the wrong type, or one that does not exist, is an error that names
it, never silently converted or ignored.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from rest_framework import serializers


class StrictCharField(serializers.CharField):
    """A JSON string; numbers are not converted."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return data


class StrictIntegerField(serializers.IntegerField):
    """A JSON integer; neither "5" nor 5.0 nor true."""

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            self.fail("invalid")
        return data


class StrictBooleanField(serializers.BooleanField):
    """A JSON true or false; neither "yes" nor 1."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


def person_field() -> serializers.SlugRelatedField[User]:
    """A person by the name that they log in with; null for none, and for one who is no more."""
    return serializers.SlugRelatedField(slug_field="username", read_only=True, allow_null=True, help_text="User name.")


class RecordSerializer(serializers.ModelSerializer[Any]):
    """A record that is only shown: every field is always there."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """The fields, all of them read-only."""
        fields = super().get_fields()
        for field in fields.values():
            field.read_only = True
        return fields


class StrictSerializer(serializers.Serializer[Any]):
    """A request whose every field is known."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = {name: ["There is no such field."] for name in data if name not in self.fields}
            if unknown:
                raise serializers.ValidationError(unknown)
        return super().to_internal_value(data)


class FieldErrorSerializer(serializers.Serializer[Any]):
    """What is wrong with one field."""

    field = serializers.CharField(allow_blank=True, help_text="Empty: the body as a whole.")
    detail = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """Problem details (RFC 9457)."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    retry_after_s = serializers.IntegerField(
        required=False, help_text="Among the results of a batch: ask this question again after so many seconds."
    )
    request_id = serializers.CharField(required=False, help_text="What the log calls this request.")
    errors = FieldErrorSerializer(many=True, required=False)  # type: ignore[assignment]  # a field, not Serializer.errors
    job = serializers.URLField(required=False, help_text="The job that does the same already.")
    doubts = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="What `confirm` would confirm, a sentence each."
    )
    confirm = serializers.CharField(
        required=False, help_text="Sent back as `confirm`, it confirms these doubts, and no others."
    )
