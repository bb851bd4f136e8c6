"""docs/openapi.yaml is what the server says of itself; whoever changes the API writes it anew."""

from __future__ import annotations

from pathlib import Path

import yaml
from django.test import Client

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"


def test_the_committed_description_is_the_served_one(client: Client, db: None) -> None:
    served = client.get("/api/v1/schema/").content.decode()
    assert COMMITTED.read_text(encoding="utf-8") == served, "python manage.py spectacular --file docs/openapi.yaml"


def test_nullable_stands_only_beside_a_type() -> None:
    """OpenAPI 3.0 ignores it without a type in the same schema: the null would not be allowed."""
    description = yaml.load(COMMITTED.read_text(encoding="utf-8"), yaml.CSafeLoader)
    waiting, nullable = [description], 0
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict) and "nullable" in part:
            assert "type" in part, part
            nullable += 1
        waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    assert nullable
    answer = description["components"]["schemas"]["Answer"]["properties"]["answer"]
    assert answer["oneOf"] == [{"$ref": "#/components/schemas/RankedAnswer"}, {"enum": [None]}]
