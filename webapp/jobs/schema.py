"""The parameters of each kind of job as JSON Schema: for the API's description, and for clients that build a form.

pydantic generates the schema of the settings from the models that also validate requests, so description and
validation cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.plumbing import ResolvedComponent

from realm_core.settings import ANY, Setting, json_schemas
from webapp.kinds import Input, Kind, startable

TYPES: Final = {int: "integer", float: "number", str: "string", bool: "boolean", dict: "object", list: "array"}
# What `setting` adds to pydantic's schema, and a title that only repeats the name.
_NO_KEYWORDS: Final = frozenset(("setting", "unit", "flag", "title"))


def parameters_schema(kind: Kind) -> dict[str, Any]:
    """JSON Schema (as OpenAPI 3.0 has it) of the parameters of a kind."""
    properties = {one.name: _input_schema(one) for one in kind.inputs}
    generated = json_schemas(kind.task)
    properties |= {one.name: _setting_schema(one, generated[one.name]) for one in kind.described()}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    needed = [one.name for one in kind.inputs if one.required]
    return schema | ({"required": needed} if needed else {})


def _input_schema(one: Input) -> dict[str, Any]:
    kept = "".join(f" with {name} {value}" for name, value in one.limit_to.items())
    says = f"Id of one of /api/v1/{one.records.list}{kept}: {one.help}{', needed' if one.required else ''}."
    if one.many:
        least = 2 if one.become_one else int(one.required)
        return {"type": "array", "items": {"type": "integer"}, "minItems": least, "description": says}
    return {"type": "integer", "description": says} | ({} if one.required else {"nullable": True})


def _setting_schema(one: Setting, generated: Mapping[str, Any]) -> dict[str, Any]:
    """pydantic's schema, with unit and limits in words. OpenAPI 3.0 differs from it in null and exclusive bounds."""
    alternatives = generated.get("anyOf", [])
    (made,) = [other for other in alternatives if other["type"] != "null"] or [generated]
    says = f"{one.unit} {one.help}".lstrip()
    schema: dict[str, Any] = {
        "type": made["type"],
        "default": generated["default"],
        "description": says if one.limit == ANY else f"{says} ({one.limit.says})",
    }
    if one.unit:
        schema["x-unit"] = one.unit
    if alternatives:
        schema["nullable"] = True
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if exclusive in made:
            schema |= {bound: made[exclusive], exclusive: True}
    return schema | {name: value for name, value in made.items() if name not in _NO_KEYWORDS | schema.keys()}


class NewJobScheme(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """A new job in the API's description: one schema per kind, with `kind` as discriminator."""

    target_class = "webapp.jobs.serializers.NewJobSerializer"

    def get_name(self, *_arguments: Any) -> str:
        return "NewJob"

    def map_serializer(self, auto_schema: Any, _direction: Any) -> dict[str, Any]:
        references = {}
        for kind in startable():
            component = ResolvedComponent(  # type: ignore[no-untyped-call]
                name="NewJob" + "".join(word.capitalize() for word in str(kind.kind).split("-")),
                type=ResolvedComponent.SCHEMA,
                object=kind.title,
                schema={
                    "type": "object",
                    "title": kind.title,
                    "description": kind.about,
                    "required": ["kind", "parameters"],
                    "properties": {
                        # drf-spectacular would make a component of each enum here
                        "kind": {"allOf": [{"type": "string", "enum": [str(kind.kind)]}]},
                        "parameters": {k: v for k, v in parameters_schema(kind).items() if k != "required"},
                        "settings_of": {
                            "type": "string",
                            "format": "uuid",
                            "nullable": True,
                            "description": "An earlier job of this kind, whose parameters replace omitted ones.",
                        },
                    },
                    "additionalProperties": False,
                },
            )
            auto_schema.registry.register_on_missing(component)
            references[str(kind.kind)] = component.ref
        return {
            "oneOf": list(references.values()),
            "discriminator": {
                "propertyName": "kind",
                "mapping": {name: reference["$ref"] for name, reference in references.items()},
            },
        }
