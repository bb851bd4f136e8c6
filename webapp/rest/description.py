"""What the description of the API leaves out."""

from __future__ import annotations

from typing import Any


def without_the_databases_limits(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Take the largest number that the database can keep from what is only read: it is another one for each database,
    and says nothing to a client."""
    for schema in result["components"]["schemas"].values():
        for field in schema.get("properties", {}).values():
            if field.get("readOnly") and field.get("type") == "integer":
                field.pop("maximum", None)
                field.pop("format", None)
    return result
