"""The description of the REST API as the server gives it; to make it takes a second, and nothing changes it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from django.test import RequestFactory

from webapp.rest.reference import SchemaView


def described() -> dict[str, Any]:
    """The description, for the caller to keep."""
    description: dict[str, Any] = json.loads(_content())
    return description


@cache
def _content() -> bytes:
    content: bytes = SchemaView.as_view()(RequestFactory().get("/api/v1/schema/?format=json")).render().content
    return content
