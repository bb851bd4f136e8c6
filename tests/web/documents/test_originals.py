"""The PDF that a document was read from: evidence opens it at its page, and it goes with the document."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.core.documents.pdfs import column, pdf
from tests.web.asked import ask
from tests.web.conftest import Person
from tests.web.documents.conftest import deploy_confirmed, meanwhile
from tests.web.operating import TokenClient
from tests.web.pages.pages import Page, block_part
from webapp.documents import bringing, restoring
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, File, OwnText, Text, Unreadable
from webapp.models import AskedAnswer, Collection, Deployment, Document, IndexGeneration
from webapp.originals import service as originals
from webapp.purges import service as purging
from webapp.serving.living import store_of
from webapp.serving.pdf_places import of_evidence
from webapp.storage.places import keep_files, originals_dir, portable

PAGES = [column(["Turku is a city in Finland."]), column(["The castle of Turku was founded in 1280."])]
REPORT = pdf(PAGES, title="Castles of Finland")
GIVEN = DocumentInput(File(REPORT, "report.pdf", "application/pdf"), "turku/report", licence="CC0")
ADDRESS = "/documents/original/?id=turku%2Freport"


def files() -> list[Path]:
    return sorted(originals_dir().glob("*")) if originals_dir().exists() else []


def links(person: Person, asked: AskedAnswer) -> dict[str, str]:
    """Where the sections of each block of the report lead to, by section."""
    source = person.client.get(f"/answers/{asked.pk}/").content.decode()
    found: dict[str, str] = {}
    for block in asked.payload["evidence"]:
        if block["title"] == "Castles of Finland":
            anchors = Page(block_part(source, block["block_id"])).all("a")
            found |= {text: attributes["href"] for attributes, text in anchors if text == block["section"]}
    return found


def opened(person: Person) -> Any:
    return person.client.get("/documents/original/", {"id": "turku/report"})


@pytest.mark.postgresql_first
def test_evidence_opens_the_pdf_at_its_page(answering: Deployment, staff: Person, outsider: Person) -> None:
    documents.add([GIVEN], by=staff.user)
    [file] = files()
    asked = ask("When was the castle of Turku founded?", k=20)
    pages = links(outsider, asked)
    assert pages and all(address == f"{ADDRESS}#page={section[-1]}" for section, address in pages.items())
    for block in asked.payload["evidence"]:
        article = Page(outsider.client.get(f"/blocks/{block['block_id']}/").content.decode())
        opens = [attributes["href"] for attributes, text in article.all("a") if text == "Open the PDF at its page"]
        assert opens == ([pages[block["section"]]] if block["title"] == "Castles of Finland" else [])

    response = opened(outsider)
    assert response.status_code == 200 and response["Content-Type"] == "application/pdf"
    assert response.content == REPORT == file.read_bytes()
    assert response["Content-Disposition"] == 'inline; filename="Castles of Finland.pdf"'
    assert response["X-Content-Type-Options"] == "nosniff" and "private" in response["Cache-Control"]
    policy = response["Content-Security-Policy"]
    assert "object-src 'self'" in policy and "script-src 'self'" in policy and "default-src 'none'" in policy
    page = staff.client.get("/manage/documents/document/", {"id": "turku/report"}).content.decode()
    assert ADDRESS in page


def test_of_a_passage_over_two_pages_the_answer_s_is_opened(answering: Deployment, staff: Person) -> None:
    documents.add([GIVEN], by=staff.user)
    asked = ask("When was the castle of Turku founded?", k=20)
    [block] = [one for one in asked.payload["evidence"] if one["title"] == "Castles of Finland"]
    assert block["section"] == "Page 1" and "1280" in block["text"]
    for words, page in (("city", 1), ("castle", 2), ("1280", 2)):
        here = {**block, "start": block["text"].index(words)}
        found = of_evidence([here], frozenset())[block["block_id"]]
        assert (found.address, found.section) == (f"{ADDRESS}#page={page}", f"Page {page}")


def test_programs_get_it_by_its_address(answering: Deployment, program: TokenClient, outsider: Person) -> None:
    file = SimpleUploadedFile("report.pdf", REPORT, "application/pdf")
    sent = {"file": file, "id": "turku/report", "licence": "CC0", "collection": "board"}
    assert program.post("/api/v1/documents", sent).status_code == 201
    told = outsider.client.get("/api/v1/documents/turku/report").json()
    assert told["original"] == "http://testserver/api/v1/originals/turku/report"
    assert {one["section"] for one in told["passages"]} <= {"Page 1", "Page 2"}
    response = outsider.client.get(told["original"], headers={"Accept": "application/pdf"})
    assert response.status_code == 200 and response["Content-Type"] == "application/pdf"
    assert response.content == REPORT

    described = program.patch(
        "/api/v1/documents/turku/report", {"licence": "CC BY 4.0"}, content_type="application/json"
    )
    assert described.json()["documents"][0]["format"] == "pdf"
    shown = program.get("/api/v1/documents/turku/report").json()
    assert shown == shown | {name: told[name] for name in ("passages", "original")} | {"licence": "CC BY 4.0"}

    Collection.objects.update_or_create(name="board", defaults={"private": True})
    assert outsider.client.get(told["original"]).status_code == 404
    assert program.get(told["original"]).status_code == 200
    documents.change("turku/report", replace(GIVEN, title="Turku", source=Text("A city.")), by=None)
    assert program.get(told["original"], headers={"Accept": "application/pdf"}).status_code == 404
    assert program.get("/api/v1/documents/turku/report").json()["original"] is None


def test_an_original_is_removed_when_its_document_is_replaced_or_removed(
    answering: Deployment, staff: Person, outsider: Person
) -> None:
    documents.add([GIVEN], by=staff.user)
    [first] = files()
    asked = ask("When was the castle of Turku founded?", k=20)
    other = pdf([*PAGES, column(["Its cathedral is older."])], title="Castles of Finland")
    documents.change("turku/report", replace(GIVEN, source=File(other, "other.pdf")), by=staff.user)
    [second] = files()
    assert second != first and opened(outsider).content == other

    documents.change("turku/report", replace(GIVEN, title="Turku", source=Text("A city.")), by=staff.user)
    assert files() == [] and opened(outsider).status_code == 404 and links(outsider, asked) == {}

    documents.change("turku/report", GIVEN, by=staff.user)
    assert len(files()) == 1 and links(outsider, asked) != {}  # word for word what the answer was read from
    documents.remove(["turku/report"], by=staff.user)
    assert opened(outsider).status_code == 404 and links(outsider, asked) == {}
    assert outsider.client.get("/api/v1/documents/turku/report").json()["original"] is None
    restoring.forget_originals()
    assert len(files()) == 1  # as long as the document can be restored
    restoring.restore(["turku/report"], by=staff.user)
    assert opened(outsider).content == REPORT and links(outsider, asked) != {}
    documents.remove(["turku/report"], by=staff.user)
    shutil.rmtree(store_of(answering.index).segments)  # as the sweep does
    restoring.forget_originals()
    assert files() == []


def test_an_edit_that_does_not_happen_leaves_none(answering: Deployment, staff: Person) -> None:
    documents.add([GIVEN], by=staff.user)
    before = files()
    assert documents.change("turku/report", GIVEN, by=staff.user).changes == []
    with pytest.raises(Unreadable):
        documents.add([replace(GIVEN, document_id="twin")], by=staff.user)
    assert files() == before and Document.objects.get().original == f"originals/{before[0].name}"


def test_uploading_it_again_keeps_it(answering: Deployment, staff: Person, outsider: Person) -> None:
    documents.add([GIVEN], by=staff.user)
    Document.objects.update(original="")  # as before PDFs were kept
    files()[0].unlink()
    assert opened(outsider).status_code == 404
    assert documents.change("turku/report", GIVEN, by=staff.user).changes == []
    assert opened(outsider).content == REPORT and len(files()) == 1


def test_only_those_who_may_read_its_collection_open_it(
    answering: Deployment, staff: Person, member: Person, outsider: Person
) -> None:
    documents.add([replace(GIVEN, collection="board")], by=staff.user)
    asked = ask("When was the castle of Turku founded?", k=20, asker=member.user)
    assert opened(outsider).status_code == 200 and links(outsider, asked) and links(member, asked)
    Collection.objects.update_or_create(name="board", defaults={"private": True})
    assert opened(outsider).status_code == opened(member).status_code == 404
    assert links(member, asked) == {}  # their own answer stays readable, and leads to nothing that is hidden
    assert opened(staff).status_code == 200 and links(staff, asked)


def test_a_purge_removes_it_and_its_receipt_says_so(answering: Deployment, staff: Person, outsider: Person) -> None:
    documents.add([GIVEN], by=staff.user)
    [file] = files()
    purge = purging.purge(["turku/report"], by=staff.user)
    assert files() == [] and opened(outsider).status_code == 404
    assert [one["path"] for one in purge.files if one["path"].startswith("originals/")] == [f"originals/{file.name}"]
    assert Document.objects.get(document_id="turku/report").original == ""


def test_an_original_is_brought_over_to_another_index(
    another_index: IndexGeneration, staff: Person, outsider: Person
) -> None:
    documents.add([GIVEN], by=staff.user)
    deploy_confirmed(another_index)
    assert opened(outsider).status_code == 404
    bringing.bring(by=staff.user)
    assert opened(outsider).status_code == 200 and len(files()) == 1
    documents.remove(["turku/report"], by=staff.user)
    assert len(files()) == 1  # of the index that answered before


def test_the_sweep_removes_what_dead_edits_left(answering: Deployment, staff: Person) -> None:
    documents.add([GIVEN], by=staff.user)
    [named] = files()
    lost, partial = originals_dir() / "lost.pdf", originals_dir() / ".x.partial"
    for path in (lost, partial):
        path.write_bytes(b"%PDF")
    assert originals.sweep() == []  # an edit may be about to name them
    for path in (lost, partial, named):
        os.utime(path, (time.time() - 7200,) * 2)
    assert originals.sweep() == ["originals/.x.partial", "originals/lost.pdf"] and files() == [named]


def test_an_edit_that_is_overtaken_keeps_one(answering: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    documents.add([replace(GIVEN, source=Text("A city."), title="Turku")], by=None)
    described = DocumentInput(OwnText(), licence="CC BY 4.0")
    meanwhile(monkeypatch, documents.Edit, "_commit", lambda: documents.change("turku/report", described, by=None))
    documents.change("turku/report", replace(GIVEN, licence=None), by=None)
    row = Document.objects.get(document_id="turku/report")
    assert row.licence == "CC BY 4.0" and [portable(one) for one in files()] == [row.original]


def test_none_is_removed_while_a_backup_is_written(answering: Deployment, staff: Person) -> None:
    documents.add([GIVEN], by=staff.user)
    [file] = files()
    with keep_files():
        documents.change("turku/report", replace(GIVEN, title="Turku", source=Text("A city.")), by=staff.user)
        assert files() == [file]
    os.utime(file, (time.time() - 7200,) * 2)
    assert originals.sweep() == [f"originals/{file.name}"]
