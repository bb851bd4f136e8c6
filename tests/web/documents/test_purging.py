"""A purged document is nowhere any more, but where the receipt says so."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from realm_core.files import remove_folder
from realm_core.living import purging as files
from tests.web.asked import ask
from tests.web.conftest import Person
from tests.web.documents.conftest import deploy_confirmed, meanwhile, titles
from tests.web.pages import stored
from tests.web.pages.stored import ODYSSEY
from webapp.articles import service as articles
from webapp.documents import committing
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.documents.listing import listed
from webapp.documents.viewing import DocumentMissing, show
from webapp.models import (
    PURGED_TITLE,
    AskedAnswer,
    AuditEntry,
    CorpusChange,
    Deployment,
    Document,
    EvidenceBlock,
    Feedback,
    IndexGeneration,
    Purge,
    Review,
)
from webapp.purges import recording
from webapp.purges import service as purging
from webapp.serving import living
from webapp.serving.engine import EngineUnavailable, holder, load_engine
from webapp.serving.states import Overtaken, state_row

TURKU = DocumentInput(
    Text("Turku is a city in Finland.\nIts castle was founded in 1280."), "turku", "Turku", licence="CC0"
)
OULU = replace(TURKU, document_id="oulu", title="Oulu", source=Text("Oulu is a city."))
LATER = replace(TURKU, source=Text("Turku was founded in 1229."))


def holding(words: str) -> list[str]:
    """The files of the data folder, and the tables, in which the words stand."""
    found = [
        str(path.relative_to(settings.REALM_DATA))
        for path in Path(settings.REALM_DATA).rglob("*")
        if path.is_file() and words.encode() in path.read_bytes()
    ]
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            if any(words in json.dumps(row, default=str) for row in cursor.fetchall()):
                found.append(table)
    return found


def test_nothing_is_left_of_a_purged_document(answering: Deployment, staff: Person) -> None:
    documents.add([TURKU], by=staff.user)
    first = ask("Where is Turku?", k=20)
    documents.change("turku", LATER, by=staff.user)
    second = ask("When was Turku founded?", k=3)
    assert holding("founded in 1280") and holding("founded in 1229")

    purge = purging.purge(["turku"], by=staff.user)
    assert holding("founded in 1280") == holding("founded in 1229") == []
    assert purge.document_ids == ["turku"] and purge.remaining == [] and purge.answers == 2 and purge.blocks == 2
    assert purge.files and all(not (Path(settings.REALM_DATA) / file["path"]).exists() for file in purge.files)
    assert CorpusChange.objects.first().kind == "purged"  # type: ignore[union-attr]
    entry = AuditEntry.objects.filter(action="document.purge").get()
    assert entry.details == {"documents": ["turku"], "receipt": str(purge.pk)} and entry.name == "Stella"
    assert show("turku").status == "purged" and show("turku").title == PURGED_TITLE
    assert "turku" not in {one.document_id for one in listed(count=100).documents}
    assert "Turku" not in titles()

    for asked in (first, second):
        before = asked.payload
        asked.refresh_from_db()
        assert asked.purged_at is not None
        kept = [block["block_id"] for block in asked.payload["evidence"]]
        assert "Turku" not in titles(asked)
        assert set(kept) == {block["block_id"] for block in before["evidence"] if block["title"] != "Turku"}
        assert [row.block_id for row in asked.evidence.all()] == kept
        assert sum(row.prior for row in asked.evidence.all()) == pytest.approx(1)


@pytest.mark.django_db(transaction=True)
def test_the_files_of_the_database_hold_nothing_of_it(answering: Deployment) -> None:
    """Neither its log nor pages that are free now."""
    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA secure_delete").fetchone() == (1,)
    documents.add([TURKU], by=None)
    ask("Where is Turku?", k=20)
    name = Path(connection.settings_dict["NAME"])
    held = [one for one in name.parent.glob(f"{name.name}*") if b"castle was founded" in one.read_bytes()]
    assert held
    purging.purge(["turku"], by=None)
    assert not any(b"castle was founded" in one.read_bytes() for one in held)


def test_one_that_was_removed_is_forgotten_too(answering: Deployment) -> None:
    documents.add([TURKU], by=None)
    documents.remove(["turku"], by=None)
    assert holding("founded in 1280")
    purging.purge(["turku"], by=None)
    assert holding("founded in 1280") == []
    again = purging.purge(["turku"], by=None)
    assert again.files == [] and Purge.objects.count() == 2, "no file holds it, and an answer kept since might"


def test_a_passage_of_another_document_stays_with_it(answering: Deployment) -> None:
    documents.add([TURKU], by=None)
    documents.remove(["turku"], by=None)
    documents.add([replace(TURKU, document_id="other")], by=None)
    asked = ask("Where is Turku?", k=20)
    purge = purging.purge(["turku"], by=None)
    asked.refresh_from_db()
    assert purge.answers == 0 and asked.purged_at is None and show("other").text


def test_the_receipt_of_an_ingested_document_names_what_still_holds_it(answering: Deployment) -> None:
    asked = ask("Where is the Nile?", k=20)
    [block] = [one for one in asked.payload["evidence"] if one["title"] == "Nile"]
    purge = purging.purge(["Nile"], by=None)
    assert len(purge.remaining) == 2 and purge.answers == 1
    asked.refresh_from_db()
    assert "Nile" not in titles(asked)
    assert (
        articles.find(block["block_id"], hidden=()) is None
        and articles.kept_copy(block["block_id"], None, AskedAnswer.objects.all(), ()) is None
    )
    assert "Nile" not in titles()


def test_an_answer_kept_behind_the_purge_is_cut_later(answering: Deployment) -> None:
    documents.add([TURKU], by=None)
    asked = ask("Where is Turku?", k=20)
    purging.purge(["turku"], by=None)
    late = AskedAnswer.objects.create(
        question="late", k=20, payload=asked.payload, deployment=answering, latency_ms=1.0
    )
    [block] = [one for one in asked.payload["evidence"] if one["title"] == "Turku"]
    EvidenceBlock.objects.create(
        answer=late,
        rank=1,
        block_id=block["block_id"],
        prior=1,
        likelihood=1,
        posterior=1,
        support=0,
    )
    assert recording.cut_purged() == 1 and holding("founded in 1280") == []
    assert recording.cut_purged() == 0


def test_what_is_not_there_changes_nothing(answering: Deployment) -> None:
    documents.add([TURKU], by=None)
    with pytest.raises(DocumentMissing, match="'nothing'"):
        purging.purge(["turku", "nothing"], by=None)
    assert show("turku").text and not Purge.objects.exists()


def test_an_edit_meanwhile_is_kept(answering: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    documents.add([TURKU], by=None)
    meanwhile(monkeypatch, purging, "opened", lambda: documents.add([OULU], by=None), behind=True)
    purging.purge(["turku"], by=None)
    assert show("oulu").text == "Oulu is a city." and holding("founded in 1280") == []


def forget_open_files() -> None:
    living._views.clear()
    living._shared_store.cache_clear()


def test_an_edit_that_a_purge_overtakes_is_repeated(answering: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The purge removes the segments of the state that the edit is about to read."""
    documents.add([TURKU], by=None)
    documents.add([OULU], by=None)

    def purged() -> None:
        purging.purge(["turku"], by=None)
        forget_open_files()  # another process has purged it

    meanwhile(monkeypatch, committing, "opened", purged)
    documents.remove(["oulu"], by=None)
    assert show("oulu").status == "removed" and show("turku").status == "purged"
    assert holding("founded in 1280") == []


def test_an_edit_of_what_cannot_be_read_is_refused(answering: Deployment) -> None:
    documents.add([TURKU], by=None)
    remove_folder(living.store_of(answering.index).segments)
    forget_open_files()
    with pytest.raises(EngineUnavailable):
        documents.remove(["turku"], by=None)


def test_a_first_edit_meanwhile_is_kept(answering: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, purging, "opened", lambda: documents.add([TURKU], by=None), behind=True)
    assert purging.purge(["Nile"], by=None).document_ids == ["Nile"] and show("turku").text
    assert show("Nile").status == "purged"


def test_a_first_edit_that_is_committed_first_wins(answering: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, states = purging._commit, []

    def behind_a_first_edit(standings: Any, *arguments: Any) -> Any:
        if not states:
            states.append(state_row(answering.index, standings[0].view.state, None))
        return commit(standings, *arguments)

    monkeypatch.setattr(purging, "_commit", behind_a_first_edit)
    assert purging.purge(["Nile"], by=None).document_ids == ["Nile"]
    states[0].refresh_from_db()
    assert not states[0].is_current and show("Nile").status == "purged"


def test_a_purge_that_waited_for_another_begins_again(answering: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had seen the state before the other one; nothing that the present state names is removed for it."""
    documents.add([TURKU, OULU], by=None)
    documents.add([DocumentInput(Text("Pori is a city."), "pori", "Pori")], by=None)
    meanwhile(monkeypatch, purging, "opened", lambda: purging.purge(["pori"], by=None), behind=True)
    purge = purging.purge(["turku"], by=None)
    assert purge.files and holding("founded in 1280") == [] and show("oulu").text == "Oulu is a city."
    assert [one.document_ids for one in Purge.objects.all()] == [["turku"], ["pori"]]
    load_engine(Deployment.objects.get(pk=answering.pk)).close()


def test_a_purge_whose_commit_fails_changes_nothing(answering: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a document that was removed before, which neither the old nor the new state names."""
    documents.add([TURKU], by=None)
    asked = ask("Where is Turku?", k=20)
    documents.remove(["turku"], by=None)

    def overtaken() -> None:
        raise Overtaken

    meanwhile(monkeypatch, purging, "_commit", overtaken)
    purge = purging.purge(["turku"], by=None)
    asked.refresh_from_db()
    assert (purge.document_ids, purge.answers) == (["turku"], 1) and purge.files and asked.purged_at is not None
    assert holding("founded in 1280") == [] and Purge.objects.get() == purge


def test_the_edits_above_another_index_are_rewritten_too(answering: Deployment, another_index: IndexGeneration) -> None:
    documents.add([TURKU, OULU], by=None)
    asked = ask("Where is Turku?", k=20)
    deploy_confirmed(another_index)
    documents.add([LATER], by=None)
    purge = purging.purge(["turku"], by=None)
    assert holding("founded in 1280") == holding("founded in 1229") == [] and purge.answers == 1
    asked.refresh_from_db()
    assert "Turku" not in titles(asked)
    rows = Document.objects.filter(document_id="turku")
    assert {(row.index_id, row.status, row.title, row.licence) for row in rows} == {
        (answering.index_id, "purged", PURGED_TITLE, ""),
        (another_index.pk, "purged", PURGED_TITLE, ""),
    }
    deploy_confirmed(answering.index)
    assert show("oulu").text == "Oulu is a city." and show("turku").status == "purged"
    assert "Oulu" in titles() and "Turku" not in titles()


def test_its_passages_are_found_through_no_feedback(answering: Deployment) -> None:
    whole = ask("Where is the Nile?", k=20)
    [block] = [one for one in whole.payload["evidence"] if one["title"] == "Nile"]
    asked = ask("Where is Mars?", k=1, exclude=[block["block_id"]])
    assert articles.in_its_corpus(block["block_id"], asked, hidden=()) is not None
    purging.purge(["Nile"], by=None)
    assert articles.in_its_corpus(block["block_id"], asked, hidden=()) is None


def test_feedback_on_an_answer_is_not_kept_for_the_answer_that_a_purge_leaves(deployed: Deployment) -> None:
    """Else a right answer would teach the one that is left."""
    asked = stored.store()
    about = {"review": Review.ACCEPTED, "use": f"It is in passage 1, which was read: {ODYSSEY[0].title}."}
    for number, word in enumerate(({"right": True}, {"right": False, "better_answer": "Kubrick"}, {"right": False})):
        Feedback.objects.create(answer=asked, session_key=f"{number}", block_id=ODYSSEY[0].block_id, **word, **about)
    told = Feedback.objects.order_by("session_key").values_list("right", "better_answer", "review", "use")

    recording.cut({ODYSSEY[-1].block_id})  # it is the same answer without that
    assert AskedAnswer.objects.get().answer_text == asked.answer_text
    assert list(told.all()) == [
        (right, better, "waiting", "") for right, better in ((True, ""), (False, "Kubrick"), (False, ""))
    ]
    recording.cut({ODYSSEY[0].block_id})
    assert AskedAnswer.objects.get().answer_text != asked.answer_text
    assert list(told.all()) == [(None, "Kubrick", "waiting", "")] and Feedback.objects.get().block_id == ""


def test_a_purge_that_died_is_finished_when_the_engine_is_loaded(
    answering: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents.add([TURKU], by=None)
    finished, calls = files._finished, []

    def dies_behind_its_commit(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return finished(*arguments)

    monkeypatch.setattr(files, "_finished", dies_behind_its_commit)
    with pytest.raises(KeyboardInterrupt):
        purging.purge(["turku"], by=None)
    assert Purge.objects.count() == 1 and holding("founded in 1280")
    monkeypatch.setattr(files, "_finished", finished)
    load_engine(Deployment.objects.get(pk=answering.pk)).close()
    assert holding("founded in 1280") == []
    holder().refresh(wait=True)
    assert "Turku" not in titles()


def test_documents_are_purged_over_rest(answering: Deployment, staff: Person, client: Any) -> None:
    client.force_login(staff.user)
    documents.add([TURKU], by=None)
    kept = client.get(f"/api/v1/answers/{ask('Where is Turku?').pk}").json()
    assert kept["purged_at"] is None

    def send(ids: Any) -> Any:
        return client.post("/api/v1/purges", {"documents": ids}, content_type="application/json")

    refused = send(["turku", "nothing"])
    assert refused.status_code == 400 and "'nothing'" in refused.content.decode() and show("turku").text
    made = send(["turku"])
    assert made.status_code == 201 and made.json()["documents"] == ["turku"] and made.json()["answers"] == 1
    assert client.get(made["Location"]).json() == made.json()
    assert [one["id"] for one in client.get("/api/v1/purges").json()["results"]] == [made.json()["id"]]
    assert client.get(f"/api/v1/answers/{kept['id']}").json()["purged_at"] is not None
    client.logout()
    assert client.get("/api/v1/purges").status_code == 401 and send(["Nile"]).status_code == 401


def test_the_pages(answering: Deployment, staff: Person, client: Any) -> None:
    client.force_login(staff.user)
    documents.add([TURKU], by=None)
    asked = ask("Where is Turku?", k=20)
    address = "/manage/documents/document/purge/?id=turku"
    assert b"Purge this document?" in client.get(address).content
    unsure = client.post(address)
    assert unsure.status_code == 422 and show("turku").text
    done = client.post(address, {"sure": "yes"}, follow=True)
    assert done.status_code == 200 and "Receipt of a purge" in done.content.decode()
    assert "passages were taken out of 1<" in done.content.decode()
    receipt = Purge.objects.get()
    assert receipt.answer_ids == [str(asked.pk)] and receipt.files
    assert f'<a href="/answers/{asked.pk}/"><bdi>{asked.question}</bdi></a>' in done.content.decode()
    hashes = [one[name] for one in receipt.files for name in ("sha256", "successor_sha256") if one[name]]
    assert all(f"<code>{one[:32]}<wbr>{one[32:]}</code>" in done.content.decode() for one in hashes)
    assert "purged on" in client.get(f"/answers/{asked.pk}/").content.decode()
    assert "It was purged on" in client.get("/manage/documents/document/?id=turku").content.decode()
    assert PURGED_TITLE in client.get("/manage/documents/?show=purged").content.decode()


def test_the_ledger_does_not_say_that_no_answer_had_read_it(answering: Deployment, staff: Person, client: Any) -> None:
    """Of nothing that took away what was purged later, either."""
    client.force_login(staff.user)
    documents.add([TURKU], by=None)
    ask("Where is Turku?", k=20)
    documents.change("turku", LATER, by=None)
    assert "1 had read it" in client.get("/manage/documents/changes/?kind=changed").content.decode()
    ask("Where is Turku?", k=20)
    receipt = purging.purge(["turku"], by=None)
    address = f"/manage/documents/purges/{receipt.pk}/"
    for kind in ("changed", "purged"):
        told = client.get(f"/manage/documents/changes/?kind={kind}").content.decode()
        assert "none had read it" not in told and f'<a href="{address}">Receipt</a>' in told
        assert "2 had read the document; it was purged from the answers." in told
        change = CorpusChange.objects.get(kind=kind)
        page = client.get(f"/manage/documents/changes/{change.pk}/").content.decode()
        assert "No kept answer" not in page and address in page
    assert address in client.get("/manage/documents/document/?id=turku").content.decode()


def test_the_numbers_of_the_ledger_add_up(answering: Deployment, staff: Person) -> None:
    documents.add([TURKU], by=None)
    documents.remove(["turku"], by=None)
    purging.purge(["turku"], by=None)
    documents.add([OULU], by=None)
    purging.purge(["oulu"], by=None)
    page = staff.client.get("/manage/documents/changes/").content.decode()
    shown = re.findall(r'data-label="Passages"[^>]*>([^<]*)<', page)
    assert shown == ["−1", "+1", "±0", "−1", "+1"]  # the latest first
    listed = staff.client.get("/api/v1/document-changes").json()["results"]
    assert sum(one["blocks_new"] - one["blocks_gone"] for one in listed) == 0
    forgotten = CorpusChange.objects.filter(kind="purged").earliest("pk")
    page = staff.client.get(f"/manage/documents/changes/{forgotten.pk}/").content.decode()
    assert "0 new, 0 gone; 1 forgotten, in all its versions" in page


def test_on_the_command_line(answering: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    documents.add([TURKU], by=None)
    call_command("documents", "purge", "turku", "Nile")
    said = capsys.readouterr().out
    assert "2 documents purged" in said and said.count("Still held by") == 2
    assert set(Document.objects.filter(status="purged").values_list("document_id", flat=True)) == {"turku", "Nile"}
