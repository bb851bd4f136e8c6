"""What the pages of Manage › Documents say of what is not taken."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.web.conftest import Person
from tests.web.operating import TokenClient
from tests.web.pages.pages import Page, text_of
from webapp.models import Deployment, Document, Fetch
from webapp.storage.places import fetched_dir

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


def test_files_of_a_refused_form_need_not_be_chosen_again(staff: Person, answering: Deployment) -> None:
    """A browser cannot put them back; rows that state no licence need one in the form."""

    def held(page: str) -> list[str]:
        return [one["value"] for one, _ in Page(page).all("input") if one.get("name") == "staged"]

    address = "/manage/documents/add/?from=file"
    rows = {
        f"{name}.jsonl": f'{{"id": "{name}", "title": "{name}", "text": "{name} is a city."}}'.encode()
        for name in ("Turku", "Oulu")
    }
    files = [SimpleUploadedFile(name, content) for name, content in rows.items()]
    response = staff.client.post(address, {"file": files, "title": "One for both"})
    assert response.status_code == 422 and "leave it empty for several" in text_of(response)
    first = held(response.content.decode())
    assert len(first) == 2

    response = staff.client.post(address, {"staged": first})
    assert response.status_code == 422 and "states no licence of 'Oulu'" in text_of(response)
    assert "they need not be chosen again: Turku.jsonl , Oulu.jsonl ." in text_of(response)
    assert held(response.content.decode()) == first

    files[0].seek(0)
    response = staff.client.post(address, {"staged": first, "file": files[0]})
    [second] = held(response.content.decode())  # what is chosen takes the place of what was held
    assert [str(fetch.pk) for fetch in Fetch.objects.all()] == [second]

    response = staff.client.post(address, {"staged": [second, "no id"], "licence": "CC0 1.0"}, follow=True)
    assert response.status_code == 200 and Document.objects.get().title == "Turku"
    assert not Fetch.objects.exists() and not list(fetched_dir().iterdir())
    response = staff.client.post(address, {"staged": second, "licence": "CC0 1.0"})
    assert response.status_code == 422 and "This field is required." in text_of(response)


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


def test_a_document_that_was_removed_meanwhile_is_not_changed(staff: Person, answering: Deployment) -> None:
    staff.client.post("/manage/documents/add/", {"title": "Turku", "text": "Turku is a city.", "licence": "CC0 1.0"})
    query = urlencode({"id": Document.objects.get().document_id})
    address = f"/manage/documents/document/change/?{query}"
    typed = {"title": "Turku", "text": "Turku was the capital.", "licence": "CC0 1.0"}
    staff.client.post(f"/manage/documents/document/remove/?{query}")
    for step in ("look", "change"):
        response = staff.client.post(address, {**typed, "step": step})
        page = text_of(response)
        assert response.status_code == 422 and "It was removed meanwhile, so nothing has been changed." in page
        assert "Turku was the capital." in page  # so that it can be added as a new document
    response = staff.client.get(address, follow=True)  # no empty form
    assert "It is removed: there is nothing to change." in text_of(response)
    assert response.redirect_chain == [(f"/manage/documents/document/?{query}", 302)]
