"""What the pages of Manage › Documents say of what is not taken."""

from __future__ import annotations

import pytest
from django.conf import settings

from tests.web.conftest import Person
from webapp.models import Deployment

pytestmark = pytest.mark.django_db


def test_a_text_that_is_too_long_to_be_typed_is_to_be_uploaded(staff: Person, answering: Deployment) -> None:
    long = "Turku is a city. " * 100_000
    response = staff.client.post("/manage/documents/add/", {"title": "Turku", "text": long, "licence": "CC0 1.0"})
    page = response.content.decode()
    assert response.status_code == 413
    assert f"What is typed may have at most {settings.DATA_UPLOAD_MAX_MEMORY_SIZE:,} bytes" in page
    assert "upload a longer text as a file" in page and "Go back" in page
    assert "At most 960 KB: upload a longer text as a file." in staff.client.get("/manage/documents/add/").content.decode()
