"""Fields and serialisers that all subjects share.

Requests are checked strictly: a field of the wrong type or an unknown field is an error that names it; nothing is
converted or ignored silently.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db.models import Model
from django.http import QueryDict
from rest_framework import serializers
from rest_framework.utils import html


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


class BoundedIntegerField(StrictIntegerField):
    """A JSON integer whose bounds are described here, and checked by the service as those of pages are."""

    def __init__(self, low: int, high: int, **options: Any) -> None:
        super().__init__(**options)
        self.min_value, self.max_value = low, high


class StrictFloatField(serializers.FloatField):
    """A JSON number; neither "5" nor true."""

    def to_internal_value(self, data: Any) -> float:
        if type(data) not in (int, float):
            self.fail("invalid")
        return super().to_internal_value(data)


class StrictBooleanField(serializers.BooleanField):
    """A JSON true or false, or in a form these words; neither "yes" nor 1."""

    def to_internal_value(self, data: Any) -> bool:
        if html.is_html_input(getattr(self.root, "initial_data", None)):
            data = {"true": True, "false": False}.get(data, data)
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class WordField(serializers.ChoiceField):
    """One of some words, which a refusal names."""

    def __init__(self, choices: Any, **kwargs: Any) -> None:
        super().__init__(choices, **kwargs)
        self.error_messages["invalid_choice"] = f"This must be one of {', '.join(map(str, self.choices))}."


class RecordIdField(StrictIntegerField):
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


def person_field() -> serializers.SlugRelatedField[User]:
    """A person by username; null for none, and for a deleted one."""
    return serializers.SlugRelatedField(slug_field="username", read_only=True, allow_null=True, help_text="User name.")


class RecordSerializer(serializers.ModelSerializer[Any]):
    """A read-only record: every field is always present."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = super().get_fields()
        for field in fields.values():
            field.read_only = True
        return fields


class StrictSerializer(serializers.Serializer[Any]):
    """A request whose every field is known, and sent once."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = {name: ["There is no such field."] for name in data if name not in self.fields}
            # Of a form; of JSON the last one counts, as everywhere.
            sent = data.lists() if isinstance(data, QueryDict) else ()
            repeated = {
                name: [f"There are {len(values)} of these; only one may be sent."]
                for name, values in sent
                if len(values) > 1 and not isinstance(self.fields.get(name), serializers.ListField)
            }
            if unknown or repeated:
                raise serializers.ValidationError({**repeated, **unknown})
        return super().to_internal_value(data)


class FieldErrorSerializer(serializers.Serializer[Any]):
    """An error of one field."""

    field = serializers.CharField(allow_blank=True, help_text="Empty: the body as a whole.")
    detail = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """Problem details (RFC 9457)."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    retry_after_s = serializers.IntegerField(
        required=False, help_text="In the results of a batch: seconds after which to ask this question again."
    )
    request_id = serializers.CharField(required=False, help_text="The id of this request in the log.")
    errors = FieldErrorSerializer(many=True, required=False)  # type: ignore[assignment]  # a field, not Serializer.errors
    job = serializers.URLField(required=False, help_text="An active job that does the same.")
    doubts = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="The doubts that `confirm` confirms, a sentence each."
    )
    confirm = serializers.CharField(
        required=False, help_text="Sent back as `confirm`, it confirms exactly these doubts."
    )
    version = serializers.CharField(required=False, help_text="Of a document that was changed meanwhile.")
