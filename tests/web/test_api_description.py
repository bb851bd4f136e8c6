"""docs/openapi.yaml is what the server says of itself; whoever changes the API writes it anew."""

from __future__ import annotations

from pathlib import Path

from django.test import Client

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"


def test_the_committed_description_is_the_served_one(client: Client, db: None) -> None:
    served = client.get("/api/v1/schema/").content.decode()
    assert COMMITTED.read_text(encoding="utf-8") == served, "python manage.py spectacular --file docs/openapi.yaml"
