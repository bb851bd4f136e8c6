"""Into which collection a document goes: no typing error publishes what a private one holds, and moves are told."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command

from realm_client import NewDocument
from tests.web.conftest import Person
from tests.web.documents.conftest import titles
from tests.web.operating import TokenClient, post, problem
from tests.web.pages.pages import text_of
from webapp.collections.service import MoreReaders
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, OwnText, Text
from webapp.documents.placing import NewCollection
from webapp.documents.viewing import DocumentMissing, show
from webapp.models import AuditEntry, Collection, CorpusChange, Deployment
from webapp.refusals import InvalidRequest

VAULT = DocumentInput(Text("The vault is opened by the word heron."), "vault", "Vault", collection="archive")
NEW = {"id": "staff", "title": "Staff", "text": "The cashier is Ragna.", "licence": "CC0"}
ADD, CHANGE = "/manage/documents/add/", "/manage/documents/document/change/?id=vault"


@pytest.fixture
def archive(answering: Deployment) -> Collection:
    """A private collection with a document, which curators read."""
    archive = Collection.objects.create(name="archive", private=True)
    archive.groups.add(Group.objects.create(name="archivists"))
    documents.add([VAULT], by=None)
    return archive


def moved_to(collection: str, **meant: bool) -> documents.Edited:
    return documents.change("vault", DocumentInput(OwnText(), collection=collection, **meant), by=None)


# ── Names ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["Archive", " ARCHIVE ", "arc hive"])
def test_case_and_blanks_make_no_other_collection(archive: Collection, program: TokenClient, name: str) -> None:
    assert post(program, "documents", {**NEW, "collection": name}).status_code == 201
    assert show("staff").about.collection == "archive"
    assert not moved_to(name).changes
    problem(program.put(f"/api/v1/collections/{name.strip()}", json.dumps({}), "application/json"), 400)
    assert list(Collection.objects.all()) == [archive]


def test_two_that_differ_by_case_already_are_two(answering: Deployment) -> None:
    documents.add([VAULT], by=None)
    Collection.objects.create(name="Archive", private=True)
    documents.change("vault", DocumentInput(OwnText(), collection="Archive"), by=None)
    assert show("vault").about.collection == "Archive"
    documents.add([replace(VAULT, document_id="plain", title="Plain", collection="archive")], by=None)
    assert show("plain").about.collection == "Archive", "no document is in the other any more"


def test_a_new_collection_is_only_made_where_that_is_said(archive: Collection, program: TokenClient) -> None:
    told = problem(post(program, "documents", {**NEW, "collection": "arcive"}), 409)
    assert told["collection"] == "arcive" and "There is no collection “arcive”" in told["detail"]
    assert "“archive”, “tiny”" in told["detail"] and "everybody who may ask" in told["detail"]
    with pytest.raises(DocumentMissing):
        show("staff")
    bulk = {"documents": [NEW, {"title": "A", "text": "B.", "collection": "arcive"}]}
    problem(post(program, "documents/bulk", bulk), 409)
    made = post(program, "documents", {**NEW, "collection": "press", "new_collection": True})
    assert made.status_code == 201 and made.json()["new_collections"] == ["press"]
    again = post(program, "documents", {**NEW, "id": "more", "title": "More", "collection": "press"})
    assert again.status_code == 201 and again.json()["new_collections"] == []
    form = {"title": "Form", "collection": "visits", "file": SimpleUploadedFile("a.txt", b"A text.", "text/plain")}
    assert program.post("/api/v1/documents", {**form, "new_collection": "perhaps"}).status_code == 400
    form["file"].seek(0)
    sent = program.post("/api/v1/documents", {**form, "new_collection": "true"})
    assert sent.status_code == 201 and sent.json()["new_collections"] == ["visits"]


def test_where_nothing_is_private_programs_add_to_any_name(answering: Deployment, program: TokenClient) -> None:
    made = post(program, "documents", {**NEW, "collection": "press"})
    assert made.status_code == 201 and made.json()["new_collections"] == ["press"]


def test_the_command_line(archive: Collection, tmp_path: Path) -> None:
    file, out = tmp_path / "note.md", StringIO()
    file.write_text("# Note\n\nA note.\n")
    with pytest.raises(CommandError, match="There is no collection “arcive”"):
        call_command("documents", "add", str(file), "--collection", "arcive")
    call_command("documents", "add", str(file), "--collection", "press", "--new-collection", stdout=out)
    assert "“press” is a new collection, which everybody who may ask reads." in out.getvalue()


def test_the_client_says_it(archive: Collection) -> None:
    assert NewDocument("T", title="T", collection="press", new_collection=True, more_readers=True).body() == {
        "text": "T",
        "title": "T",
        "collection": "press",
        "new_collection": True,
        "more_readers": True,
    }


# ── Moves ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_out_of_a_private_collection_only_where_that_is_confirmed(archive: Collection, program: TokenClient) -> None:
    with pytest.raises(MoreReaders, match="everybody who may ask would read it"):
        moved_to("")
    with pytest.raises(MoreReaders):
        moved_to("press", new_collection=True)
    with pytest.raises(NewCollection):
        moved_to("press", more_readers=True)
    answer = program.patch("/api/v1/documents/vault", json.dumps({"collection": ""}), content_type="application/json")
    assert "(more_readers)" in problem(answer, 409)["detail"]
    assert show("vault").about.collection == "archive" and CorpusChange.objects.count() == 1
    body = json.dumps({"collection": "", "more_readers": True})
    assert program.patch("/api/v1/documents/vault", body, content_type="application/json").status_code == 200
    assert "Vault" in titles()


def test_a_move_between_private_collections_asks_if_it_adds_readers(archive: Collection) -> None:
    board = Collection.objects.create(name="board", private=True)
    moved_to("board")  # admins alone
    with pytest.raises(MoreReaders, match="admins, archivists would read it"):
        moved_to("archive")
    board.groups.set(archive.groups.all())
    moved_to("archive")
    moved_to("board")


def test_ledger_and_audit_trail_say_where_it_went(archive: Collection, program: TokenClient, staff: Person) -> None:
    moved_to("tiny", more_readers=True)
    change, added = CorpusChange.objects.all()
    assert (change.moved_from, change.collection, change.readers) == ("archive", "tiny", "everybody who may ask")
    assert (added.moved_from, added.collection, added.readers) == ("", "archive", "admins, archivists")
    archive.delete()  # the ledger says who could read it then
    entry = AuditEntry.objects.get(action="document.change")
    assert entry.details["moved_from"] == "archive" and entry.details["collection"] == "tiny"
    assert entry.details["readers"] == "everybody who may ask"
    told = program.get("/api/v1/document-changes").json()["results"]
    assert [(one["moved_from"], one["collection"]) for one in told] == [("archive", "tiny"), ("", "archive")]
    page = text_of(staff.client.get(f"/manage/documents/changes/{change.pk}/"))
    assert "from archive to tiny , read then by everybody who may ask" in page
    assert "archive → tiny" in text_of(staff.client.get("/manage/documents/changes/"))
    documents.change("vault", DocumentInput(OwnText(), tags=("keys",)), by=None)
    assert CorpusChange.objects.all()[0].collection == "" and "readers" not in AuditEntry.objects.all()[0].details


def test_a_preview_says_it_and_refuses_nothing(archive: Collection, program: TokenClient) -> None:
    told = post(program, "documents/vault/touched", {"collection": "Press"}).json()["placing"]
    assert told == {
        "moved_from": "archive",
        "collection": "Press",
        "is_new": True,
        "readers_before": "admins, archivists",
        "readers": "everybody who may ask",
        "more_readers": True,
    }
    told = post(program, "documents/vault/touched", {"collection": "ARCHIVE"}).json()["placing"]
    assert not told["more_readers"] and not told["is_new"] and told["collection"] == "archive"


# ── The pages ───────────────────────────────────────────────────────────────────────────────────────────────────────


def sent(**fields: Any) -> dict[str, Any]:
    """The form of a document's text."""
    return {"title": "Vault", "text": "The vault is opened by the word heron.", "licence": "CC0", **fields}


def test_the_form_offers_what_there_is(archive: Collection, staff: Person) -> None:
    page = staff.client.get(ADD).content.decode()
    assert '<option value="archive">archive – read by admins, archivists</option>' in page
    assert '<option value="tiny" selected>tiny – read by everybody who may ask</option>' in page
    assert "<details open>" not in page
    page = staff.client.get(CHANGE).content.decode()
    assert '<option value="archive" selected>' in page
    assert "As the source says, or else tiny" in staff.client.get(f"{ADD}?from=file").content.decode()
    new = re.search(
        r'<input[^>]* name="new_collection"[^>]*>', staff.client.get(f"{ADD}?collection=x").content.decode()
    )
    assert new is not None and 'value="x"' in new[0]


def test_a_typing_error_is_no_collection_and_a_new_one_is_said_to_be_one(archive: Collection, staff: Person) -> None:
    added = {"title": "Staff", "text": "Ragna.", "licence": "CC0"}
    assert staff.client.post(ADD, {**added, "collection": "arcive"}).status_code == 422
    refused = staff.client.post(ADD, {**added, "new_collection": "Archive"})
    assert refused.status_code == 422 and "There is a collection “archive” already" in text_of(refused)
    made = staff.client.post(ADD, {**added, "new_collection": "press"}, follow=True)
    assert "“press” is a new collection, which everybody who may ask reads." in text_of(made)
    page = staff.client.get("/manage/documents/collections/collection/?name=Archive", follow=True)
    assert page.redirect_chain[0][0].endswith("?name=archive") and "There is this collection already" in text_of(page)


def test_the_page_of_a_change_asks_before_more_may_read_it(archive: Collection, staff: Person) -> None:
    moved = sent(collection="tiny", version=show("vault").version)
    page = staff.client.post(CHANGE, moved)
    said = "It moves from the collection archive , read by admins, archivists , to tiny , read by everybody who may ask"
    assert said in text_of(page) and 'name="more_readers" required' in page.content.decode()
    refused = staff.client.post(CHANGE, {**moved, "step": "change"})
    assert refused.status_code == 409 and show("vault").about.collection == "archive"
    done = staff.client.post(CHANGE, {**moved, "step": "change", "more_readers": "on"}, follow=True)
    assert "It was moved from “archive” to “tiny”." in text_of(done) and show("vault").about.collection == "tiny"
    back = staff.client.post(CHANGE, sent(collection="archive", version=show("vault").version))
    assert "more_readers" not in back.content.decode() and "from the collection tiny" in text_of(back)


def test_a_name_that_is_too_long_is_refused_with_its_field(archive: Collection) -> None:
    with pytest.raises(InvalidRequest):
        moved_to("x" * 101)
