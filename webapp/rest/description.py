"""Post-processing of the API's description."""

from __future__ import annotations

from typing import Any


def without_the_databases_limits(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Remove the largest number that the database can store from read-only fields: it differs between databases, and
    clients do not need it."""
    for schema in result["components"]["schemas"].values():
        for field in schema.get("properties", {}).values():
            if field.get("readOnly") and field.get("type") == "integer":
                field.pop("maximum", None)
                field.pop("format", None)
    return result


def shared_headers(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Say of each header field of responses once what it is; the responses refer to that."""
    shared: dict[str, Any] = {}
    responses = (
        response
        for methods in result["paths"].values()
        for operation in methods.values()
        for response in operation["responses"].values()
    )
    for response in responses:
        for name, about in response.get("headers", {}).items():
            if shared.setdefault(name, about) == about:
                response["headers"][name] = {"$ref": f"#/components/headers/{name}"}
    result["components"]["headers"] = dict(sorted(shared.items()))
    return result


def null_as_a_choice(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Make null one of the choices where a field is null or what another schema says: `nullable` counts in OpenAPI 3.0
    only beside a `type`, so that validators refuse a null there."""
    _choose_null(result["components"])
    _choose_null(result["paths"])
    return result


def _choose_null(part: Any) -> None:
    if isinstance(part, dict):
        if part.get("nullable") is True and "type" not in part:
            del part["nullable"]
            part["oneOf"] = [*part.pop("allOf", []), *part.pop("oneOf", []), {"enum": [None]}]
        for inner in part.values():
            _choose_null(inner)
    elif isinstance(part, list):
        for inner in part:
            _choose_null(inner)
