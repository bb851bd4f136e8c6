"""The API's description, as OpenAPI and as a page: operations, parameters and data, made from the OpenAPI schema.

The schema has all of this; the page orders it for reading, and resolves references into links.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.views import SpectacularAPIView

from webapp.rest.authentication import AUTHENTICATION

_FIRST: Final = ("ask", "retrieve", "fill", "answers", "blocks")  # used most; operations for admins follow
_METHODS: Final = ("get", "post", "put", "patch", "delete")
_LIMITS: Final = {
    "minimum": "from {}",
    "maximum": "to {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
}
_Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Type:
    """The type of a value, in words; data: the name of the described data that `text` ends with, if any."""

    text: str
    data: str = ""


@dataclass(frozen=True)
class Field:
    """A parameter (place: path, query or header), or a field of data."""

    name: str
    type: Type
    required: bool
    description: str
    place: str = ""


@dataclass(frozen=True)
class Content:
    """The body of a request or response, with an example as text if there is one."""

    media: str
    type: Type
    example: str = ""


@dataclass(frozen=True)
class Response:
    status: str
    description: str
    contents: tuple[Content, ...]


@dataclass(frozen=True)
class Operation:
    """A method of an address. curl: the options of an example call, after the address."""

    name: str
    method: str
    path: str
    summary: str
    description: str
    needs_account: bool
    parameters: tuple[Field, ...]
    body: tuple[Content, ...]
    responses: tuple[Response, ...]
    curl: tuple[str, ...]


@dataclass(frozen=True)
class Data:
    name: str
    description: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Reference:
    """The whole page. groups: operations by subject."""

    description: str
    groups: dict[str, list[Operation]] = field(default_factory=dict)
    data: tuple[Data, ...] = ()


class SchemaView(SpectacularAPIView):
    """The OpenAPI description; `?format=json` for JSON."""

    authentication_classes = AUTHENTICATION


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """Operations, requests and responses, with calls to copy."""
    origin = request.build_absolute_uri("/").rstrip("/")
    return render(request, "api/reference.html", {"reference": reference(), "origin": origin})


@cache
def reference() -> Reference:
    """The description of the API as it is served; computed once per process."""
    schema = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]  # untyped
    made = Reference(
        schema["info"]["description"], data=tuple(_data(*named) for named in schema["components"]["schemas"].items())
    )
    by_tag: dict[str, list[Operation]] = {tag: [] for tag in _FIRST}
    for path, methods in schema["paths"].items():
        for method in _METHODS:
            if method in methods:
                operation = _operation(method, path, methods[method])
                by_tag.setdefault(methods[method]["tags"][0], []).append(operation)
    made.groups.update((tag.replace("-", " ").capitalize(), own) for tag, own in by_tag.items() if own)
    return made


def _operation(method: str, path: str, description: _Schema) -> Operation:
    body = tuple(_contents(description.get("requestBody", {})))
    return Operation(
        name=description["operationId"],
        method=method.upper(),
        path=path,
        summary=description.get("summary", ""),
        description=description.get("description", ""),
        needs_account={} not in description.get("security", [{}]),
        parameters=tuple(
            Field(one["name"], _type(one["schema"]), one.get("required", False), one.get("description", ""), one["in"])
            for one in description.get("parameters", [])
        ),
        body=body,
        responses=tuple(
            Response(status, response.get("description", ""), tuple(_contents(response)))
            for status, response in description["responses"].items()
        ),
        curl=tuple(_curl(method, body)),
    )


def _curl(method: str, body: tuple[Content, ...]) -> Iterator[str]:
    if method != "get":
        yield f"-X {method.upper()}"
    yield '-H "Authorization: Bearer $REALM_TOKEN"'
    if body:
        yield f'-H "Content-Type: {body[0].media}"'
        if body[0].example:
            quoted = body[0].example.replace("'", "'\\''")
            yield f"-d '{quoted}'"


def _contents(description: _Schema) -> Iterator[Content]:
    for media, content in description.get("content", {}).items():
        examples = [one["value"] for one in content.get("examples", {}).values() if "value" in one]
        text = ""
        if examples:
            text = (
                examples[0] if isinstance(examples[0], str) else json.dumps(examples[0], indent=1, ensure_ascii=False)
            )
        yield Content(media, _type(content.get("schema", {})), text)


def _data(name: str, description: _Schema) -> Data:
    required = description.get("required", [])
    fields = tuple(
        Field(own, _type(schema), own in required, schema.get("description", ""))
        for own, schema in description.get("properties", {}).items()
    )
    if not fields:  # a choice, a list or a single value
        fields = (Field("", _type(description), True, ""),)
    return Data(name, description.get("description", ""), fields)


def _type(schema: _Schema) -> Type:
    """The type in words, with a link to the data that it refers to."""
    type_ = _not_null(schema)
    return Type(f"null or {type_.text}".strip(), type_.data) if schema.get("nullable") else type_


def _not_null(schema: _Schema) -> Type:
    if "$ref" in schema:
        return Type("", schema["$ref"].rpartition("/")[2])
    for several in ("allOf", "oneOf", "anyOf"):
        if several in schema:
            *others, last = sorted((_type(one) for one in schema[several]), key=lambda one: bool(one.data))
            return Type(" or ".join([*(one.text or one.data for one in others), last.text]).strip(), last.data)
    if schema.get("type") == "array":
        return _with_item_type("list of", schema.get("items", {}))
    if "enum" in schema:
        return Type(" or ".join("null" if value is None else json.dumps(value) for value in schema["enum"]))
    if isinstance(schema.get("additionalProperties"), Mapping):
        return _with_item_type("object with values", schema["additionalProperties"])
    text = str(schema.get("type", "any value"))
    if "format" in schema:
        text += f" ({schema['format']})"
    return Type(", ".join([text, *(words.format(schema[key]) for key, words in _LIMITS.items() if key in schema)]))


def _with_item_type(what: str, schema: _Schema) -> Type:
    type_ = _type(schema)
    return Type(f"{what} {type_.text}".strip(), type_.data)
