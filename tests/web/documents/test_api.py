"""Documents over REST and on the command line."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from urllib.parse import quote

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.http import HttpResponse
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart

from tests.web.conftest import Person
from tests.web.documents.conftest import meanwhile
from tests.web.operating import TokenClient, post, problem
from webapp.documents import committing, service
from webapp.documents.inputs import DocumentInput, Text
from webapp.models import CorpusChange, CorpusState, Deployment, Document, IndexGeneration

TURKU = {"id": "turku", "title": "Turku", "text": "Turku is a city in Finland.", "tags": ["cities"]}


def test_a_document_is_added_shown_changed_and_removed(deployed: Deployment, program: TokenClient) -> None:
    made = post(program, "documents", TURKU)
    assert made.status_code == 201 and made.json()["changes"] == 1, made.content
    assert made["Location"] == "http://testserver/api/v1/documents/turku" and "+" in made.json()["corpus"]
    shown = Client().get("/api/v1/documents/turku").json()
    assert shown["text"] == TURKU["text"] and shown["tags"] == ["cities"]
    assert (shown["licence"], shown["attribution"]) == ("", "")  # nobody stated them, and they are not the corpus's
    assert len(shown["passages"]) == 1 and shown["corpus"] == made.json()["corpus"]
    changed = program.put(
        "/api/v1/documents/turku", {"title": "Turku", "text": "New."}, content_type="application/json"
    )
    assert changed.status_code == 200 and changed.json()["documents"][0]["status"] == "changed"
    assert program.delete("/api/v1/documents/turku").status_code == 204
    assert problem(program.delete("/api/v1/documents/turku"), 404)["detail"] == "The corpus has no document 'turku'."
    assert "The corpus has no document" in problem(program.delete("/api/v1/documents/tur%0Aku"), 404)["detail"]
    problem(program.put("/api/v1/documents/turku", TURKU, content_type="application/json"), 400)  # it has an id
    assert [one["id"] for one in Client().get("/api/v1/documents?status=removed").json()["results"]] == ["turku"]


def test_documents_by_when_they_were_added(deployed: Deployment, program: TokenClient, staff: Person) -> None:
    post(program, "documents", TURKU)
    [row] = Document.objects.all()
    CorpusChange.objects.update(at=datetime(2026, 3, 1, 12, tzinfo=UTC))
    address = "/api/v1/documents?added_"
    for period, there in (
        ("since=2026-03-01T12:00:00Z", True),
        ("since=2026-03-01T12:00:01Z", False),
        ("before=2026-03-01T12:00:00Z", False),
        ("before=2026-03-01T14:00:01%2B02:00&added_since=2026-02-01T00:00:00Z", True),
    ):
        assert [one["id"] for one in program.get(address + period).json()["results"]] == ["turku"] * there, period
    for wrong in ("since=2026-03-01", "since=2026-03-01T12:00:00", "before=yesterday", "before="):
        problem(program.get(address + wrong), 400)
    for query, there in (("since=2026-03-01", True), ("since=2026-03-02", False), ("before=2026-03-01", False)):
        page = staff.client.get(f"/manage/documents/?added_{query}").content.decode()
        assert (row.title in page) is there and f'value="{query[-10:]}"' in page
    assert staff.client.get("/manage/documents/?added_since=x").status_code == 200
    out = StringIO()
    call_command("documents", "list", "--added-since", "2026-03-01T12:00", "--added-before", "2026-03-02", stdout=out)
    assert out.getvalue().splitlines()[-1] == "1 of 1"


def test_heads_are_read_as_bodies_are(deployed: Deployment) -> None:
    for address in ("documents", "documents/Nile", "documents/Nile/touched"):
        whole, head = (ask(f"/api/v1/{address}") for ask in (Client().get, Client().head))
        assert (head.status_code, head["Content-Type"]) == (whole.status_code, whole["Content-Type"]), address


def test_the_limit_of_edits_is_told(deployed: Deployment, program: TokenClient) -> None:
    told = program.delete("/api/v1/documents/nowhere")
    assert told["RateLimit-Policy"] == '"edit";q=120;w=60'
    assert re.fullmatch(r'"edit";r=1[01]\d;t=\d+', told["RateLimit"])
    for read in (program.get, program.head):
        assert "RateLimit" not in read("/api/v1/documents/Nile")


ABOUT = {
    "licence": "CC0",
    "attribution": "Ada",
    "url": "https://example.org/turku",
    "language": "fi",
    "date": "2024-05-01",
    "tags": ["cities"],
    "collection": "travel",
}


def test_a_change_keeps_what_it_does_not_give(deployed: Deployment, program: TokenClient) -> None:
    post(program, "documents", TURKU | ABOUT)

    def change(**told: object) -> dict[str, object]:
        body = {"title": "Turku", "text": "New."} | told
        made = program.put("/api/v1/documents/turku", body, content_type="application/json")
        assert made.status_code == 200, made.content
        shown = Client().get("/api/v1/documents/turku").json()
        return {name: shown[name] for name in ABOUT}

    assert change() == ABOUT == change(licence=None, date=None, tags=None, language=None)
    assert change(licence="CC BY 4.0") == ABOUT | {"licence": "CC BY 4.0"}
    emptied = change(licence="", attribution="", url="", date="", tags=[])
    assert emptied == ABOUT | {"licence": "", "attribution": "", "url": "", "date": None, "tags": []}
    change(**ABOUT)
    form = encode_multipart(BOUNDARY, {"file": SimpleUploadedFile("turku.txt", b"Newer."), "tags": "a", "date": ""})
    uploaded = program.put("/api/v1/documents/turku", form, content_type=MULTIPART_CONTENT)
    assert uploaded.status_code == 200, uploaded.content
    shown = Client().get("/api/v1/documents/turku").json()
    assert shown == shown | ABOUT | {"text": "Newer.", "date": None, "tags": ["a"]}


def test_what_is_said_of_a_document_changes_without_its_text(
    deployed: Deployment, program: TokenClient, staff: Person
) -> None:
    page = b"# Turku\n\n## Castle\n\nIt was founded\n\nin 1280.\n"
    post_file = program.post("/api/v1/documents", {"file": SimpleUploadedFile("turku.md", page), **ABOUT})
    address = f"/api/v1/documents/{quote(post_file.json()['documents'][0]['id'])}"

    def shown() -> dict[str, object]:
        found = Client().get(address).json()
        return {name: found[name] for name in ("title", "text", "passages", "format", *ABOUT)}

    first = shown()
    assert first["format"] == "markdown" and "Castle" in str(first["passages"])
    told = {"licence": "CC BY 4.0", "tags": ["b"], "date": ""}
    assert program.patch(address, told, content_type="application/json").json()["changes"] == 1
    assert shown() == first | told | {"date": None}
    assert program.patch(address, {}, content_type="application/json").json()["changes"] == 0
    body = {"title": "Turku", "text": first["text"], "licence": "CC0"}  # the text that it has
    assert program.put(address, body, content_type="application/json").json()["changes"] == 1
    assert shown() == first | told | {"date": None, "licence": "CC0"}
    problem(program.patch(address, {"text": "Another."}, content_type="application/json"), 400)
    problem(program.patch("/api/v1/documents/none", told, content_type="application/json"), 404)

    form = {name: value for name, value in body.items() if name != "tags"} | {"licence": "Corrected", "step": "change"}
    form["text"] = str(first["text"]).replace("\n", "\r\n")  # as browsers send it
    document_id = address.rpartition("/")[2]
    staff.client.post(f"/manage/documents/document/change/?id={document_id}", form)
    assert shown()["licence"] == "Corrected" and shown()["passages"] == first["passages"]


def test_a_text_that_was_changed_meanwhile_stays(
    deployed: Deployment, program: TokenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(program, "documents", TURKU)
    another = DocumentInput(Text("Another text."), title="Turku")
    meanwhile(monkeypatch, committing, "_with_file", lambda: service.change("turku", another, by=None))
    sent = program.patch("/api/v1/documents/turku", {"licence": "CC0"}, content_type="application/json")
    assert sent.status_code == 200, sent.content
    shown = Client().get("/api/v1/documents/turku").json()
    assert (shown["text"], shown["licence"]) == ("Another text.", "CC0")


def test_an_id_whose_address_would_be_another_one_is_refused(
    deployed: Deployment, program: TokenClient, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("A text.")
    for wrong in ("a\nb", "a\u2028b", "a\tb", "bulk", ".", "..", "a/../b", "a/touched"):
        rows = [{"id": one, "title": one, "text": f"A text of {one}."} for one in ("fine", wrong)]
        told = problem(post(program, "documents", rows[1]), 422)["detail"]
        assert repr(wrong) in told
        problem(post(program, "documents/bulk", {"documents": rows}), 422)
        uploaded = SimpleUploadedFile("rows.jsonl", "\n".join(map(json.dumps, rows)).encode())
        said = problem(program.post("/api/v1/documents", {"file": uploaded}), 422)["detail"]
        assert said == f"rows.jsonl: {told}"
        with pytest.raises(CommandError, match=re.escape(told)):
            call_command("documents", "add", str(tmp_path / "a.txt"), "--id", wrong)
    assert not Document.objects.exists() and not CorpusState.objects.exists()


def test_an_id_of_a_row_with_a_null_byte_is_refused(deployed: Deployment, program: TokenClient) -> None:
    uploaded = SimpleUploadedFile("rows.jsonl", json.dumps({"id": "a\0b", "title": "T", "text": "X."}).encode())
    said = problem(program.post("/api/v1/documents", {"file": uploaded}), 422)["detail"]
    assert said == "rows.jsonl: The id 'a\\x00b' must not contain a control character or a line break."


def test_a_document_of_the_corpus_keeps_its_licence_when_it_is_changed(
    deployed: Deployment, program: TokenClient
) -> None:
    body = {"title": "Nile", "text": "The Nile is long."}
    assert program.put("/api/v1/documents/Nile", body, content_type="application/json").status_code == 200
    shown = Client().get("/api/v1/documents/Nile").json()
    assert (shown["licence"], shown["attribution"]) == ("CC BY-SA 4.0", "Written for the tests")


def test_a_list_is_read_page_by_page(deployed: Deployment, program: TokenClient) -> None:
    post(program, "documents", TURKU)
    page = Client().get("/api/v1/documents?page_size=5").json()
    assert page["previous"] is None and page["results"][0]["id"] == "turku"
    ids = [one["id"] for one in page["results"]]
    while page["next"]:
        page = Client().get(page["next"]).json()
        ids += [one["id"] for one in page["results"]]
    assert len(ids) == len(set(ids)) == 13
    for wrong in ("cursor=bz0x!", "cursor=YQ==", "cursor=MS4yLjM=", "status=lost", "order=title"):
        problem(Client().get(f"/api/v1/documents?{wrong}"), 400)


def test_a_list_holds_while_its_documents_are_edited(deployed: Deployment, program: TokenClient) -> None:
    """Of each page the first is removed and the second changed; one is added; two of the base are edited before they
    are listed, and one after."""
    many = [TURKU | {"id": f"{n}", "title": f"{n}", "text": f"Town {n}."} for n in range(7)]
    assert post(program, "documents/bulk", {"documents": many}).status_code == 201
    base = [one["id"] for one in Client().get("/api/v1/documents?page_size=500").json()["results"]][7:]
    ids: list[str] = []
    address = "/api/v1/documents?page_size=3"
    while address:
        page = Client().get(address).json()
        ids += (new := [one["id"] for one in page["results"]])
        assert len(new) == 3 or not page["next"]
        if len(ids) == 3:
            assert post(program, "documents", TURKU).status_code == 201
            assert program.delete(f"/api/v1/documents/{quote(base[-2])}").status_code == 204
            _tag(program, base[-1])
        assert program.delete(f"/api/v1/documents/{quote(new[0])}").status_code == 204
        if len(new) > 1:
            _tag(program, new[1])
        address = page["next"]
    assert ids == [*"6543210", *base[:-2], base[-1]]  # without the one that is no more, and the one that came later
    left = Client().get("/api/v1/documents?page_size=500").json()["results"]
    assert {one["id"] for one in left} == {*ids, "turku"} - set(ids[::3])


def test_a_list_over_another_base_begins_again(deployed: Deployment, program: TokenClient) -> None:
    following = Client().get("/api/v1/documents?page_size=3").json()["next"]
    IndexGeneration.objects.create(
        generation="other", model=deployed.model, corpus=deployed.index.corpus, rows=1, dim=1
    )
    Deployment.objects.update(index=IndexGeneration.objects.get(generation="other"))
    refused = problem(Client().get(following), 400)
    assert refused["errors"][0]["field"] == "cursor" and "begin again" in refused["errors"][0]["detail"]


def _tag(program: TokenClient, document_id: str) -> None:
    address = f"/api/v1/documents/{quote(document_id)}"
    assert program.patch(address, {"tags": ["seen"]}, content_type="application/json").status_code == 200


def test_a_file_of_more_than_a_mebibyte_is_uploaded(deployed: Deployment, program: TokenClient) -> None:
    page = b"<html><head><title>Oulu</title><style>" + b"x" * (1 << 20) + b"</style></head><body><article><h1>Oulu</h1>"
    page += b"<p>Oulu is a city by the sea, in the north of Finland.</p></article></body></html>"
    fields = {"file": SimpleUploadedFile("oulu.html", page, "text/html"), "licence": "CC0", "tags": ["a", "b"]}
    made = program.post("/api/v1/documents", fields)
    assert made.status_code == 201, made.content
    shown = Client().get(f"/api/v1/documents/{made.json()['documents'][0]['id']}").json()
    assert (shown["format"], shown["licence"], shown["tags"]) == ("html", "CC0", ["a", "b"])
    assert "north of Finland" in shown["text"]


def test_a_large_file_is_refused_to_those_who_are_no_operators(deployed: Deployment, member: Person) -> None:
    fields = {"file": SimpleUploadedFile("oulu.txt", b"x" * (2 << 20), "text/plain")}
    problem(TokenClient(member.user, "ask").post("/api/v1/documents", fields), 413)


def test_a_damaged_file_is_refused_by_name(deployed: Deployment, program: TokenClient) -> None:
    file = SimpleUploadedFile("report.pdf", b"%PDF-1.7 cut", "application/pdf")
    assert problem(program.post("/api/v1/documents", {"file": file}), 422)["detail"].startswith("report.pdf")
    assert not Document.objects.exists() and not CorpusState.objects.exists()


def test_many_are_added_by_one_edit(deployed: Deployment, program: TokenClient) -> None:
    other = {"title": "Oulu", "text": "Oulu is by the sea."}
    made = post(program, "documents/bulk", {"documents": [TURKU, other]})
    assert made.status_code == 201 and made.json()["changes"] == 2
    assert CorpusState.objects.filter(has_edits=True).count() == 1
    told = problem(post(program, "documents/bulk", {"documents": [{**other, "title": "X"}, {"title": "Y"}]}), 400)
    assert told["errors"][0]["field"].startswith("documents[1]")
    assert Document.objects.count() == 2


def test_a_wrong_field_of_many_is_named_within_its_list(deployed: Deployment, program: TokenClient) -> None:
    def wrong(*sent: dict[str, str]) -> list[str]:
        told = problem(post(program, "documents/bulk", {"documents": sent}), 400)
        return [one["field"] for one in told["errors"]]

    assert wrong({"title": "Oulu", "text": "A town."}, {"text": "A town."}) == ["documents[1].title"]
    assert wrong({"text": "A town."}) == ["documents[0].title"]
    assert wrong() == ["documents"]
    files = [SimpleUploadedFile(f"{name}.txt", b"A town.", "text/plain") for name in ("oulu", "kemi")]
    told = problem(program.post("/api/v1/documents/bulk", {"file": files, "licence": "x" * 500}), 400)
    assert [one["field"] for one in told["errors"]] == ["licence"]  # which is said of both


def test_many_files_are_added_by_one_edit(deployed: Deployment, program: TokenClient) -> None:
    def files() -> list[SimpleUploadedFile]:
        return [
            SimpleUploadedFile("oulu.md", b"# Oulu\n\nOulu is by the sea.\n", "text/markdown"),
            SimpleUploadedFile("towns.jsonl", b'{"id": "kemi", "title": "Kemi", "text": "A town."}', "text/plain"),
        ]

    about = {"licence": "CC0", "tags": ["cities", "north"], "collection": "towns"}
    made = program.post("/api/v1/documents/bulk", {**about, "file": files()}, headers={"Idempotency-Key": "files"})
    assert made.status_code == 201, made.content
    assert [one["title"] for one in made.json()["documents"]] == ["Oulu", "Kemi"]
    for document in Document.objects.all():
        assert (document.licence, document.tags, document.collection) == ("CC0", ["cities", "north"], "towns")
    again = program.post("/api/v1/documents/bulk", {**about, "file": files()}, headers={"Idempotency-Key": "files"})
    assert (again.status_code, again.json()["documents"]) == (200, made.json()["documents"])
    assert CorpusState.objects.filter(has_edits=True).count() == 1

    damaged = SimpleUploadedFile("report.pdf", b"%PDF-1.7 cut", "application/pdf")
    other = SimpleUploadedFile("vaasa.txt", b"Vaasa is by the sea.", "text/plain")
    told = problem(program.post("/api/v1/documents/bulk", {"file": [other, damaged]}), 422)
    assert told["detail"].startswith("report.pdf") and Document.objects.count() == 2
    for fields in ({}, {"file": files(), "title": "Both"}):
        problem(program.post("/api/v1/documents/bulk", fields), 400)


def test_of_two_files_for_one_document_none_is_dropped(deployed: Deployment, program: TokenClient) -> None:
    files = [SimpleUploadedFile(f"{name}.txt", name.encode(), "text/plain") for name in ("one", "two")]
    for method, address in (("POST", "documents"), ("PUT", "documents/Nile")):
        body = encode_multipart(BOUNDARY, {"file": files})
        refused = problem(program.generic(method, f"/api/v1/{address}", body, MULTIPART_CONTENT), 400)
        assert refused["errors"] == [{"field": "file", "detail": "There are 2 of these; only one may be sent."}]
        for file in files:
            file.seek(0)
    assert not Document.objects.exists()


def test_an_edit_with_a_key_is_made_once(deployed: Deployment, program: TokenClient) -> None:
    def send(**more: str) -> object:
        return program.post(
            "/api/v1/documents", TURKU | more, content_type="application/json", headers={"Idempotency-Key": "k"}
        )

    first, again = send(), send()
    assert (first.status_code, again.status_code) == (201, 200)
    assert again["Idempotency-Replayed"] == "true" and again.json()["documents"] == first.json()["documents"]
    assert again["Location"] == first["Location"]
    problem(send(title="Another"), 422)
    assert Document.objects.count() == 1


def test_a_key_stands_for_an_edit_and_brings_no_content_back(deployed: Deployment, program: TokenClient) -> None:
    def change(key: str, text: str) -> tuple[HttpResponse, str]:
        sent = {"title": "Nile", "text": text}
        told = program.put(
            "/api/v1/documents/Nile", sent, content_type="application/json", headers={"Idempotency-Key": key}
        )
        return told, Client().get("/api/v1/documents/Nile").json()["text"]

    assert [change("1", "One text.")[1], change("2", "Another text.")[1]] == ["One text.", "Another text."]
    again, text = change("1", "One text.")
    assert (again.status_code, again["Idempotency-Replayed"], text) == (200, "true", "Another text.")
    now = Client().get("/api/v1/documents").json()["results"][0]
    [told] = again.json()["documents"]
    assert again.json()["changes"] == 0 and {name: told[name] for name in now} == now
    third, text = change("3", "One text.")
    assert "Idempotency-Replayed" not in third and (third.json()["changes"], text) == (1, "One text.")


def test_a_removal_with_a_key_is_made_once(deployed: Deployment, program: TokenClient) -> None:
    """Sent again, it removes nothing that has come under the id since, and says what the first said."""

    def remove(document_id: str) -> HttpResponse:
        return program.delete(f"/api/v1/documents/{document_id}", headers={"Idempotency-Key": "k"})

    problem(remove("turku"), 404)  # which takes no key
    post(program, "documents", TURKU)
    assert remove("turku").status_code == 204
    post(program, "documents", TURKU)
    again = remove("turku")
    assert (again.status_code, again["Idempotency-Replayed"], again.content) == (204, "true", b"")
    assert Client().get("/api/v1/documents/turku").json()["status"] == "current"
    problem(remove("Nile"), 422)


def test_documents_on_the_command_line(deployed: Deployment, tmp_path: Path) -> None:
    file = tmp_path / "oulu.md"
    file.write_text("# Oulu\n\nOulu is by the sea.\n")
    out = StringIO()
    call_command("documents", "add", str(file), "--id", "oulu", "--licence", "CC0", stdout=out)
    call_command("documents", "list", "--title", "oul", stdout=out)
    call_command("documents", "remove", "oulu", "--yes", stdout=out)
    said = out.getvalue().splitlines()
    assert said[:2] == ["added  oulu  Oulu  (1 block)", "oulu  Oulu  (1 block, current)"]
    assert said[2:4] == ["1 of 1", "0 kept answers have read this."] and said[4].startswith("removed  oulu  Oulu")
    with pytest.raises(CommandError, match="no document 'oulu'"):
        call_command("documents", "remove", "oulu", stdout=out)


def test_the_command_keeps_the_tags_of_rows_unless_it_is_given_some(deployed: Deployment, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"id": "turku", "title": "Turku", "text": "A city.", "tags": ["sea"]}))
    call_command("documents", "add", str(file), stdout=StringIO())
    assert Document.objects.get().tags == ["sea"]
    file.write_text(json.dumps({"id": "oulu", "title": "Oulu", "text": "A city.", "tags": ["sea"]}))
    call_command("documents", "add", str(file), "--tag", "a", "--tag", "b", stdout=StringIO())
    assert Document.objects.get(document_id="oulu").tags == ["a", "b"]


def test_the_command_says_what_is_wrong_with_a_file(deployed: Deployment, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"none\.txt cannot be read: No such file or directory\."):
        call_command("documents", "add", str(tmp_path / "none.txt"))
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps({"id": "turku", "title": one, "text": "A city."}) for one in ("A", "B")))
    with pytest.raises(CommandError, match=r"^rows\.jsonl: The document 'turku' is given twice\.$"):
        call_command("documents", "add", str(file))


def test_a_form_where_only_json_is_taken_is_refused(deployed: Deployment, program: TokenClient) -> None:
    body = encode_multipart(BOUNDARY, {"licence": "CC0"})
    problem(program.generic("PATCH", "/api/v1/documents/Nile", body, MULTIPART_CONTENT), 415)
    assert not Document.objects.exists()
