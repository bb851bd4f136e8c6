"""What was guessed or not read of a file is said to who adds it, and kept; pasted tables are read as tables."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from urllib.parse import quote

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart

from tests.core.documents.pdfs import Line, pdf
from tests.web.conftest import Person
from tests.web.documents.conftest import deploy_confirmed
from tests.web.operating import TokenClient, post
from webapp.documents import bringing, edit_views, service
from webapp.documents.inputs import DocumentInput, File
from webapp.models import Deployment, Document, IndexGeneration
from webapp.purges import service as purging

TITLE = "Hours of the library"
SCANNED = pdf([[Line("The library opens at nine.", 700)], [], [Line("It closes at six.", 700)], []], title=TITLE)
PAGES_MISSING = "2 of 4 pages hold no text (2, 4); they may be scanned."
LATIN = "Une crème brûlée après le café, déjà vu à l'été.".encode("latin-1")
GUESSED = "Its encoding is stated nowhere; it was read as cp1252."
TABLE = "\tCapital\tPopulation\r\nNorway\tOslo\t5,500,000\r\nSweden\tStockholm\t"
ROWS = ["Norway; Capital: Oslo; Population: 5,500,000.", "Sweden; Capital: Stockholm."]


def untitled(name: str) -> str:
    return f"It states no title, so it is called “{name}”, as its file is; a better one helps to find its passages."


def _pdf() -> SimpleUploadedFile:
    return SimpleUploadedFile("hours.pdf", SCANNED, "application/pdf")


def test_the_page_says_it_after_adding_and_with_the_document(answering: Deployment, staff: Person) -> None:
    form = {"file": _pdf(), "licence": "CC0"}
    page = staff.client.post("/manage/documents/add/?from=file", form, follow=True).content.decode()
    assert f"“{TITLE}”: {PAGES_MISSING}" in page
    again = staff.client.get(f"/manage/documents/document/?id={Document.objects.get().document_id}").content.decode()
    assert f"“{TITLE}”" not in again and f"<dd>{PAGES_MISSING}</dd>" in again


def test_the_page_says_it_of_each_of_several_files(
    answering: Deployment, staff: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit_views, "_WARNED", 2)
    latin = [SimpleUploadedFile(f"{name}.txt", LATIN) for name in ("a", "b", "c")]
    form = {"file": [_pdf(), *latin], "licence": "CC0"}
    page = staff.client.post("/manage/documents/add/?from=file", form, follow=True).content.decode()
    assert page.count(PAGES_MISSING) == 1 and page.count(f"“a”: {GUESSED}") == 1 and "“b”" not in page
    assert "There is something to know of 2 more documents, too" in page


def test_the_preview_of_a_change_says_it(answering: Deployment, staff: Person) -> None:
    staff.client.post("/manage/documents/add/", {"title": TITLE, "text": "It opens at ten.", "licence": "CC0"})
    document = Document.objects.get()
    address = f"/manage/documents/document/change/?id={quote(document.document_id)}&from=file"
    page = staff.client.post(address, {"file": _pdf(), "licence": "CC0"}).content.decode()
    assert PAGES_MISSING in page and "Nothing has been changed yet." in page
    document.refresh_from_db()
    assert document.warnings == []


def test_rest_says_it_of_each_document(deployed: Deployment, program: TokenClient) -> None:
    [added] = program.post("/api/v1/documents", {"file": _pdf()}).json()["documents"]
    assert added["warnings"] == [PAGES_MISSING]
    files = [SimpleUploadedFile("cafe.txt", LATIN), SimpleUploadedFile("oulu.md", b"# Oulu\n\nA city.")]
    bulk = program.post("/api/v1/documents/bulk", {"file": files}).json()["documents"]
    assert [one["warnings"] for one in bulk] == [[GUESSED, untitled("cafe")], []]

    address = f"/api/v1/documents/{added['id']}"
    described = program.patch(address, {"licence": "CC0"}, content_type="application/json").json()
    assert described["changes"] == 1 and described["documents"][0]["warnings"] == [PAGES_MISSING]  # the text stays
    assert Client().get(address).json()["warnings"] == [PAGES_MISSING]
    new = encode_multipart(BOUNDARY, {"file": SimpleUploadedFile("hours.txt", LATIN)})
    changed = program.put(address, new, content_type=MULTIPART_CONTENT).json()["documents"]
    assert changed[0]["warnings"] == [GUESSED, untitled("hours")]
    body = {"title": TITLE, "text": "It opens at nine."}
    changed = program.put(address, body, content_type="application/json").json()["documents"]
    assert changed[0]["warnings"] == []


def test_the_command_says_it(deployed: Deployment, tmp_path: Path) -> None:
    file, out = tmp_path / "hours.pdf", StringIO()
    file.write_bytes(SCANNED)
    call_command("documents", "add", str(file), "--id", "hours", stdout=out)
    assert out.getvalue().splitlines() == [f"added  hours  {TITLE}  (1 block)", f"  {PAGES_MISSING}"]


def test_it_is_brought_over_and_purged_with_the_document(answering: Deployment, another_index: IndexGeneration) -> None:
    service.add([DocumentInput(File(SCANNED, "hours.pdf"), document_id="hours")], by=None)
    deploy_confirmed(another_index)
    bringing.bring(by=None)
    document = Document.objects.get(index=another_index)
    assert document.warnings == [PAGES_MISSING]
    purging.purge(["hours"], by=None)
    document.refresh_from_db()
    assert document.warnings == []


def test_a_pasted_table_is_read_as_one(answering: Deployment, staff: Person, program: TokenClient) -> None:
    form = {"title": "Countries", "text": TABLE, "licence": "CC0"}
    page = staff.client.post("/manage/documents/add/", form, follow=True).content.decode()
    assert all(row in page for row in ROWS)
    post(program, "documents", {"id": "lands", "title": "Lands", "text": TABLE})
    assert Client().get("/api/v1/documents/lands").json()["text"].split("\n") == ROWS


def test_a_text_of_blanks_alone_is_refused(answering: Deployment, staff: Person) -> None:
    page = staff.client.post("/manage/documents/add/", {"title": "None", "text": " \t\n", "licence": "CC0"})
    assert page.status_code == 422 and "Give the document a text." in page.content.decode()
