"""What the pages of Manage › Documents say of what is not taken."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.web.conftest import Person
from tests.web.operating import TokenClient
from webapp.models import Deployment, Document

pytestmark = pytest.mark.django_db


def test_a_text_that_is_too_long_to_be_typed_is_to_be_uploaded(staff: Person, answering: Deployment) -> None:
    long = "Turku is a city. " * 100_000
    response = staff.client.post("/manage/documents/add/", {"title": "Turku", "text": long, "licence": "CC0 1.0"})
    page = response.content.decode()
    assert response.status_code == 413
    assert "What is typed may have at most 1.0\xa0MB: upload a longer text as a file" in page
    assert "Go back" in page
    assert (
        "At most 960 KB: upload a longer text as a file." in staff.client.get("/manage/documents/add/").content.decode()
    )


FILES = {
    "good.md": b"# Turku\n\nA city.",
    "empty.txt": b"",
    "fake.pdf": b"\x08\xaa\x06\xff",
    "picture.md": b"\x89PNG\r\n\x1a\n",
}


def test_each_file_that_cannot_be_read_is_named_an_empty_one_too(staff: Person, answering: Deployment) -> None:
    reasons = (
        "empty.txt is empty.",
        "fake.pdf is named as PDF, but its content is not: it is damaged, or of another format.",
        "picture.md is a PNG image, which is not read.",
    )
    about = {"licence": "CC0 1.0", "file": [SimpleUploadedFile(name, content) for name, content in FILES.items()]}
    page = staff.client.post("/manage/documents/add/?from=file", about)
    assert page.status_code == 422
    assert [reason for reason in reasons if f"<li>{reason}</li>" not in page.content.decode()] == []
    files = [SimpleUploadedFile(name, content) for name, content in FILES.items()]
    sent = TokenClient(staff.user, "operate").post("/api/v1/documents/bulk", {"licence": "CC0 1.0", "file": files})
    assert sent.status_code == 422 and sent.json()["detail"] == " ".join(reasons)


def test_a_document_that_is_there_already_is_named_by_its_title_with_a_link(
    staff: Person, answering: Deployment
) -> None:
    about = {"title": "Turku & around", "text": "Turku is a city.", "licence": "CC0 1.0"}
    assert staff.client.post("/manage/documents/add/", {**about, "new_collection": "archive"}).status_code == 302
    there, about["collection"] = Document.objects.get().document_id, "archive"
    page = staff.client.post("/manage/documents/add/", about).content.decode()
    assert f"“Turku &amp; around” is in the collection archive already, with the same text (id {there})." in page
    assert f'<a href="/manage/documents/document/?id={there}"><bdi>Turku &amp; around</bdi></a>' in page
