"""A removed document is restored as if it had never been removed, as long as what it was is kept."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.utils import timezone

from realm_core.errors import RealmError
from tests.tiny import ARTICLES
from tests.web.asked import ask
from tests.web.conftest import Person
from tests.web.documents import folds
from tests.web.documents.conftest import copied, meanwhile
from tests.web.operating import TokenClient, post, problem
from tests.web.pages.pages import Page, text_of
from webapp.collections import service as collections
from webapp.documents import folding, restoring, sweeping
from webapp.documents import service as documents
from webapp.documents.committing import Edit
from webapp.documents.inputs import DocumentInput, OwnText, Text
from webapp.documents.viewing import DocumentMissing, show
from webapp.models import (
    AuditEntry,
    Collection,
    CorpusChange,
    CorpusState,
    Deployment,
    Document,
    GoneBlock,
    IdempotencyKey,
    Job,
)
from webapp.purges import service as purging
from webapp.serving.living import store_of
from workers.executions import EXECUTIONS, RunAgain

TURKU = DocumentInput(Text("Turku is a city in Finland."), "turku", "Turku", licence="CC0", tags=("city",))
OULU = DocumentInput(Text("Oulu is a city in Finland, too."), "oulu", "Oulu")
FIRST = next(iter(ARTICLES))
ADDRESS = "/api/v1/documents/turku"


def evidence() -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = ask("Where is Turku?", k=20).payload["evidence"]
    return read


def told(client: Any, document_id: str) -> dict[str, Any]:
    response = client.get(f"/api/v1/documents/{document_id}")
    shown: dict[str, Any] = response.json()
    return shown


def state() -> str:
    return CorpusState.objects.get(is_current=True).state_id


# ── It is as it was ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("document_id", ["turku", FIRST])
def test_it_is_answered_from_as_if_it_had_stayed(answering: Deployment, program: TokenClient, document_id: str) -> None:
    documents.add([TURKU], by=None)
    documents.add([OULU], by=None)
    documents.change("turku", DocumentInput(OwnText(), licence="CC BY 4.0"), by=None)
    before, was, then = evidence(), told(program, document_id), state()
    assert any(block["title"] == was["title"] for block in before)
    documents.remove([document_id], by=None)
    gone = set(GoneBlock.objects.values_list("block_id", flat=True))
    assert gone and evidence() != before and told(program, document_id)["status"] == "removed"

    response = post(program, f"documents/{document_id}/restore")
    assert response.status_code == 200, response.content
    edit = response.json()
    assert (
        edit["changes"] == 1 and edit["documents"][0]["version"] == was["version"] and edit["corpus"] == was["corpus"]
    )
    assert evidence() == before and state() == then and not GoneBlock.objects.exists()
    shown = told(program, document_id)
    times = {name: shown[name] for name in ("added_at", "changed_at")}
    assert shown == was | times

    change = CorpusChange.objects.first()
    assert change is not None and change.kind == "restored" and set(change.blocks_new) == gone
    assert AuditEntry.objects.first().action == "document.restore"  # type: ignore[union-attr]
    listed = program.get("/api/v1/document-changes", {"kind": "restored"}).json()["results"]
    assert [one["document"] for one in listed] == [document_id] and listed[0]["by"] == program.record.user.username


def test_what_came_meanwhile_stays_behind_it(answering: Deployment) -> None:
    """The segment of a document that was removed is in no state any more, and returns to its place."""
    documents.add([TURKU], by=None)
    documents.add([OULU], by=None)
    segments = CorpusState.objects.get(is_current=True).state["segments"]
    documents.remove(["turku"], by=None)
    documents.add([replace(OULU, document_id="vaasa", title="Vaasa")], by=None)
    restoring.restore(["turku"], by=None)
    now = CorpusState.objects.get(is_current=True).state["segments"]
    assert now[:2] == segments and len(now) == 3


def test_several_are_restored_by_one_edit_or_none(answering: Deployment) -> None:
    documents.add([TURKU, OULU], by=None)
    documents.remove(["turku"], by=None)
    documents.remove(["oulu"], by=None)
    with pytest.raises(DocumentMissing):
        restoring.restore(["turku", "nowhere"], by=None)
    assert Document.objects.filter(status="removed").count() == 2
    assert len(restoring.restore(["turku", "oulu", "turku"], by=None).changes) == 2


# ── Over REST: versions and keys ────────────────────────────────────────────────────────────────────────────────────


def test_the_version_that_comes_back_can_be_asked_for(answering: Deployment, program: TokenClient) -> None:
    documents.add([TURKU], by=None)
    version = told(program, "turku")["version"]
    documents.remove(["turku"], by=None)
    address = f"{ADDRESS}/restore"
    refused = program.post(address, {}, "application/json", headers={"If-Match": '"0123456789abcdef"'})
    assert problem(refused, 412)["version"] == version and show("turku").status == "removed"
    assert program.post(address, {}, "application/json", headers={"If-Match": f'"{version}"'}).status_code == 200


def test_a_key_stands_for_one_restoration(answering: Deployment, program: TokenClient) -> None:
    documents.add([TURKU], by=None)
    documents.remove(["turku"], by=None)
    send = {"path": f"{ADDRESS}/restore", "content_type": "application/json", "headers": {"Idempotency-Key": "once"}}
    first = program.post(**send)
    documents.remove(["turku"], by=None)
    again = program.post(**send)
    assert (first.status_code, again.status_code) == (200, 200) and again["Idempotency-Replayed"] == "true"
    assert again.json()["changes"] == 0 and show("turku").status == "removed"
    problem(program.post(**send | {"path": "/api/v1/documents/oulu/restore"}), 422)
    assert IdempotencyKey.objects.count() == 1


def test_only_admins_restore(answering: Deployment, member: Person, outsider: Person) -> None:
    documents.add([TURKU], by=None)
    documents.remove(["turku"], by=None)
    assert post(TokenClient(member.user, "ask"), "documents/turku/restore").status_code == 403
    assert "/login/" in outsider.client.post("/manage/documents/document/restore/?id=turku")["Location"]
    assert show("turku").status == "removed"


# ── What is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_removed_or_unknown_is_refused(answering: Deployment, program: TokenClient) -> None:
    documents.add([TURKU], by=None)
    assert "is not removed" in problem(post(program, "documents/turku/restore"), 409)["detail"]
    assert "is not removed" in problem(post(program, f"documents/{FIRST}/restore"), 409)["detail"]
    problem(post(program, "documents/nowhere/restore"), 404)
    documents.remove(["turku"], by=None)
    documents.add([replace(TURKU, source=Text("Another text."))], by=None)
    assert "is not removed" in problem(post(program, "documents/turku/restore"), 409)["detail"]
    refused = problem(post(program, "documents", {"id": "a/restore", "title": "A", "text": "A."}), 422)
    assert "'/restore'" in refused["detail"]


def test_what_was_purged_is_not_restored(answering: Deployment, program: TokenClient) -> None:
    documents.add([TURKU], by=None)
    documents.remove(["turku"], by=None)
    purging.purge(["turku"], by=None)
    assert "was purged" in problem(post(program, "documents/turku/restore"), 409)["detail"]
    documents.remove([FIRST], by=None)
    purging.purge([FIRST], by=None)
    assert "was purged" in problem(post(program, f"documents/{FIRST}/restore"), 409)["detail"]


def test_a_passage_that_was_purged_with_another_document_does_not_return(
    answering: Deployment, program: TokenClient
) -> None:
    documents.add([TURKU, replace(TURKU, document_id="twin", collection="other")], by=None)
    documents.remove(["twin"], by=None)
    documents.add([OULU], by=None)
    # The twin's text is in a segment of its own, which the purge does not rewrite.
    documents.add([replace(TURKU, document_id="third", collection="third")], by=None)
    documents.remove(["third"], by=None)
    purging.purge(["turku"], by=None)
    assert "was purged with another" in problem(post(program, "documents/third/restore"), 409)["detail"]
    # That of the other was in the purged one's segment, and went with its file.
    assert "not kept any more" in problem(post(program, "documents/twin/restore"), 409)["detail"]


def test_the_text_of_another_document_is_refused(answering: Deployment, program: TokenClient) -> None:
    documents.add([TURKU], by=None)
    documents.remove(["turku"], by=None)
    documents.add([replace(TURKU, document_id="twin")], by=None)
    refused = problem(post(program, "documents/turku/restore"), 422)
    assert "already, with the same text (id twin)" in refused["detail"] and show("turku").status == "removed"


def test_what_was_swept_is_not_kept(answering: Deployment, program: TokenClient, staff: Person) -> None:
    documents.add([TURKU], by=None)
    documents.remove(["turku"], by=None)
    page = "/manage/documents/document/?id=turku"
    assert "Restore it" in text_of(staff.client.get(page))
    assert sweeping.sweep(by=None, now=timezone.now() + timedelta(days=2))
    assert "not kept any more" in problem(post(program, "documents/turku/restore"), 409)["detail"]
    shown = text_of(staff.client.get(page))
    assert "Restore it" not in shown and "cannot be restored any more" in shown


def test_a_segment_that_is_back_is_not_swept(answering: Deployment) -> None:
    documents.add([TURKU], by=None)
    documents.remove(["turku"], by=None)
    CorpusState.objects.update(created_at=timezone.now() - timedelta(days=2))
    for folder in store_of(answering.index).segments.iterdir():
        os.utime(folder, (0, 0))
    restoring.restore(["turku"], by=None)
    CorpusState.objects.update(created_at=timezone.now() - timedelta(days=2))
    assert sweeping.sweep(by=None) == [] and "Turku" in {block["title"] for block in evidence()}


class TestFolds:
    @pytest.fixture
    def folders(self, folders: tuple[Path, Path, Path], tmp_path: Path) -> tuple[Path, Path, Path]:
        return copied(folders, tmp_path)

    def test_behind_a_fold_it_is_not_kept(self, answering: Deployment, program: TokenClient) -> None:
        documents.add([TURKU], by=None)
        documents.remove([FIRST], by=None)
        folds.fold()
        assert "not kept any more" in problem(post(program, f"documents/{FIRST}/restore"), 409)["detail"]
        documents.remove(["turku"], by=None)
        assert post(program, "documents/turku/restore").status_code == 200
        assert "Turku" in {block["title"] for block in evidence()}

    def test_a_fold_during_which_one_is_restored_fails(self, answering: Deployment) -> None:
        documents.add([TURKU], by=None)
        documents.remove([FIRST], by=None)
        job = folding.start(by=None)
        result = folds.compute(job)
        restoring.restore([FIRST], by=None)
        with pytest.raises(RunAgain):
            EXECUTIONS["fold"].record(job, result)
        with pytest.raises(RealmError, match="were restored since the fold began; fold the corpus again"):
            folds.compute(job)
        Job.objects.filter(pk=job.pk).update(state="failed")
        before = evidence()
        folds.fold()
        assert evidence() == before and show(FIRST).status == "current"


def test_of_two_restorations_at_once_one_happens(answering: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    documents.add([TURKU], by=None)
    documents.remove(["turku"], by=None)
    meanwhile(monkeypatch, Edit, "_commit", lambda: restoring.restore(["turku"], by=None))
    with pytest.raises(restoring.NotRestored, match="is not removed"):
        restoring.restore(["turku"], by=None)
    assert CorpusChange.objects.filter(kind="restored").count() == 1


# ── Collections ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def vault(answering: Deployment) -> Collection:
    """A private collection, of which the only document was removed."""
    archive = Collection.objects.create(name="archive", private=True)
    archive.groups.add(Group.objects.create(name="archivists"))
    documents.add([replace(TURKU, document_id="vault", collection="archive")], by=None)
    documents.remove(["vault"], by=None)
    return archive


def test_it_is_back_in_its_private_collection(vault: Collection, program: TokenClient, outsider: Person) -> None:
    assert post(program, "documents/vault/restore").status_code == 200
    assert told(program, "vault")["collection"] == "archive"
    assert outsider.client.get("/api/v1/documents/vault").status_code == 404


@pytest.mark.parametrize("change", ["removed", "public", "groups"])
def test_more_readers_than_when_it_was_removed_are_confirmed(
    vault: Collection, program: TokenClient, staff: Person, change: str
) -> None:
    if change == "removed":
        collections.remove("archive", by=None, public=True)
    elif change == "public":
        settings = collections.CollectionSettings(private=False, groups=())
        collections.save("archive", settings, by=None, more_readers=True)
    else:
        vault.groups.add(Group.objects.create(name="visitors"))
    assert "could read when it was removed" in problem(post(program, "documents/vault/restore"), 409)["detail"]
    page = staff.client.post("/manage/documents/document/restore/?id=vault")
    assert page.status_code == 409 and "could read when it was removed" in text_of(page)
    assert show("vault").status == "removed"
    fields = {
        one["name"]: one["value"] for one, _ in Page(page.content.decode()).all("input") if one.get("value") == "yes"
    }
    assert fields == {"more_readers": "yes"}
    assert staff.client.post("/manage/documents/document/restore/?id=vault", fields).status_code == 302
    assert show("vault").status == "current"


def test_who_could_read_it_is_not_known_of_earlier_versions(vault: Collection, program: TokenClient) -> None:
    """Their removals did not record it, and the collection may have been private."""
    collections.remove("archive", by=None, public=True)
    CorpusChange.objects.update(readers="")
    assert "not known who could read it" in problem(post(program, "documents/vault/restore"), 409)["detail"]
    assert post(program, "documents/vault/restore", {"more_readers": True}).status_code == 200


def test_its_collection_is_only_made_again_where_that_is_said(vault: Collection, program: TokenClient) -> None:
    documents.add([replace(OULU, collection="open", new_collection=True)], by=None)
    documents.remove(["oulu"], by=None)
    assert "new_collection" in problem(post(program, "documents/oulu/restore"), 409)["detail"]
    edit = post(program, "documents/oulu/restore", {"new_collection": True}).json()
    assert edit["new_collections"] == ["open"]


# ── Page and command ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_of_a_removed_document_restores_it(answering: Deployment, staff: Person) -> None:
    documents.add([TURKU], by=None)
    documents.remove(["turku"], by=None)
    address = "/manage/documents/document/restore/?id=turku"
    assert staff.client.get(address).status_code == 405
    response = staff.client.post(address, follow=True)
    assert "“Turku” is restored" in text_of(response) and "restored" in text_of(response)
    assert show("turku").row.changes.first().by == staff.user  # type: ignore[union-attr]
    assert "is not removed" in text_of(staff.client.post(address, follow=True))


def test_the_command_line_restores(answering: Deployment) -> None:
    documents.add([TURKU], by=None)
    documents.remove(["turku"], by=None)
    out = StringIO()
    call_command("documents", "restore", "turku", stdout=out)
    assert "restored  turku  Turku  (1 block)" in out.getvalue()
    with pytest.raises(CommandError, match="is not removed"):
        call_command("documents", "restore", "turku")
