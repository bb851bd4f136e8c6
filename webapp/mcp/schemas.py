"""JSON Schema of serialisers: tools are described in the words of REST."""

from __future__ import annotations

from typing import Any, Final

from rest_framework import serializers

from webapp.asking.serializers import DayField
from webapp.rest.serializers import BoundedIntegerField, StrictSerializer

Schema = dict[str, Any]

_TYPES: Final = {
    DayField: "string",
    serializers.BooleanField: "boolean",
    serializers.IntegerField: "integer",
    serializers.FloatField: "number",
    serializers.CharField: "string",
    serializers.UUIDField: "string",
    serializers.DateField: "string",
    serializers.DateTimeField: "string",
    serializers.ChoiceField: "string",
    serializers.DictField: "object",
}


def schema_of(kind: type[serializers.Serializer[Any]], **limits: Schema) -> Schema:
    """The schema of what a serialiser reads or writes. limits: more of some fields, which a service checks."""
    schema = _object(kind())
    for name, more in limits.items():
        schema["properties"][name] |= more
    return schema


def object_schema(properties: dict[str, Schema]) -> Schema:
    """An object that has all of these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _object(one: serializers.Serializer[Any]) -> Schema:
    schema = object_schema({name: _field(field) for name, field in one.fields.items()})
    if isinstance(one, StrictSerializer):  # a request; a response always has all
        schema["required"] = [name for name, field in one.fields.items() if field.required]
    return schema


def _field(field: Any) -> Schema:
    if isinstance(field, serializers.ListSerializer | serializers.ListField):
        schema: Schema = {"type": "array", "items": _field(field.child)}
    elif isinstance(field, serializers.Serializer):
        schema = _object(field)
    else:
        schema = {"type": next(name for kind, name in _TYPES.items() if isinstance(field, kind))}
    if isinstance(field, DayField | serializers.DateField):
        schema["format"] = "date"
    if isinstance(field, BoundedIntegerField):
        schema |= {"minimum": field.min_value, "maximum": field.max_value}
    if isinstance(field.default, bool | int):
        schema["default"] = field.default
    if field.allow_null:
        schema["type"] = [schema["type"], "null"]
    return schema | ({"description": field.help_text} if field.help_text else {})
