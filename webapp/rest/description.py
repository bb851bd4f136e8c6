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
