"""A purge holds above every index of a corpus: at once, and above one that is deployed later, whenever it was built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from realm_core.errors import RealmError
from realm_core.index.build import build
from realm_core.runs.activity import Activity
from tests.tiny import ARTICLES, tiny_snapshot
from tests.web.asked import ask
from tests.web.conftest import Person
from tests.web.documents.conftest import deploy_confirmed, meanwhile, titles
from webapp.artefacts.registering import record_corpus, record_index
from webapp.articles import service as articles
from webapp.deployments import service as deploying
from webapp.documents import bringing
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.documents.listing import listed
from webapp.documents.viewing import show
from webapp.models import AskedAnswer, CorpusState, Deployment, Document, GoneBlock, IndexGeneration, Purge
from webapp.purges import masks
from webapp.purges import service as purging
from webapp.serving import living
from webapp.serving.engine import load_engine
from webapp.serving.states import Overtaken
from webapp.storage.places import resolve

NILE = DocumentInput(Text("The Nile is a river in Africa, written anew."), "Nile", "Nile", licence="CC0")


def read_of(title: str) -> list[AskedAnswer]:
    """An answer that was read from passages with this title, stored; none where there are none."""
    asked = ask("What is said of the Nile?", k=20)
    return [asked] if title in titles(asked) else []


def another_snapshot(folders: tuple[Path, Path, Path], root: Path) -> IndexGeneration:
    """An index of a later snapshot of the same corpus, in which the text of the Nile is another one."""
    texts = {**ARTICLES, "Nile": ARTICLES["Nile"] + " It is long."}
    corpus = tiny_snapshot(folders[2].parents[2], texts)
    record_corpus(corpus)
    return record_index(build(folders[0], corpus, root / "indexes", Activity(quiet=True), name="later"))


def assert_forgotten(client: Any, staff: Person) -> None:
    """Neither a question, nor retrieval, the list, its page, nor a passage's page shows it."""
    client.force_login(staff.user)
    assert read_of("Nile") == []
    found = client.post("/api/v1/retrieve", {"question": "the Nile", "k": 20}, content_type="application/json").json()
    assert found["blocks"] and "Nile" not in {block["title"] for block in found["blocks"]}
    assert "Nile" not in {one.document_id for one in listed(count=100).documents}
    page = client.get("/manage/documents/document/?id=Nile")
    assert page.status_code == 404 or "It was purged on" in page.content.decode()
    assert client.get("/api/v1/documents/Nile").json().get("text", "") == ""


@pytest.mark.postgresql_first
def test_at_once_above_an_index_without_edits(
    answering: Deployment, another_index: IndexGeneration, staff: Person, client: Any
) -> None:
    purge = purging.purge(["Nile"], by=staff.user)
    assert len(purge.remaining) == 3, "the snapshot, and both indexes of it"
    assert CorpusState.objects.filter(index=another_index, is_current=True).get().state["tombstones"] != {}
    assert deploying.check(another_index).doubts == () and masks.unmasked_purges(another_index) is None
    engine = load_engine(Deployment(model=another_index.model, index=another_index))
    assert "Nile" not in {block.title for block in engine.ask("What is said of the Nile?", k=20).evidence}
    engine.close()
    deploy_confirmed(another_index)
    assert_forgotten(client, staff)
    assert bringing.waiting() is None


def test_above_one_that_was_built_later(
    answering: Deployment, folders: tuple[Path, Path, Path], tmp_path: Path, staff: Person, client: Any
) -> None:
    kept = read_of("Nile")[0]
    purging.purge(["Nile"], by=staff.user)
    model, _, corpus = folders
    later = record_index(build(model, corpus, tmp_path / "indexes", Activity(quiet=True), name="later"))
    client.force_login(staff.user)
    page = client.get(f"/manage/deployments/deploy/?index={later.pk}").content.decode()
    assert "1 document that was purged from this corpus is in this index, and will be masked" in page
    deploy_confirmed(later)
    assert_forgotten(client, staff)
    kept.refresh_from_db()
    assert "Nile" not in titles(kept)
    assert Purge.objects.count() == 1 and Document.objects.get(index=later).status == "purged"
    deploying.roll_back(answering, confirmed=True)
    assert masks.unmasked_purges(answering.index) is None


def test_above_a_snapshot_in_which_its_text_is_another_one(
    answering: Deployment, folders: tuple[Path, Path, Path], tmp_path: Path, staff: Person, client: Any
) -> None:
    purging.purge(["Nile"], by=staff.user)
    later = another_snapshot(folders, tmp_path)
    view = purging.opened(later, None)
    [block] = view.blocks_of_article(view.with_ids(["Nile"])["Nile"])
    client.force_login(staff.user)
    assert not GoneBlock.objects.filter(block_id=block.block_id).exists()
    assert client.get(f"/api/v1/blocks/{block.block_id}").status_code == 404, "before it is deployed"
    asked = AskedAnswer(deployment=Deployment(index=later, model=later.model), payload={})
    assert articles.in_its_corpus(block.block_id, asked, hidden=()) is None, "nor for an answer of that snapshot"
    deploy_confirmed(later)
    assert_forgotten(client, staff)
    assert GoneBlock.objects.get(block_id=block.block_id).change.kind == "purged"
    assert client.get(f"/api/v1/blocks/{block.block_id}").status_code == 404


def test_answers_of_an_index_that_does_not_answer_now_are_cut(
    answering: Deployment, folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    later = another_snapshot(folders, tmp_path)
    deploy_confirmed(later)
    kept = read_of("Nile")[0]
    deploying.roll_back(answering, confirmed=True)
    purging.purge(["Nile"], by=None)
    kept.refresh_from_db()
    assert kept.purged_at is not None
    assert "Nile" not in titles(kept)


@pytest.mark.postgresql_first
def test_answers_of_an_index_that_was_removed_are_cut(
    answering: Deployment, folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    """Its text was another one there, and nothing but the answers has it any more."""
    kept = read_of("Nile")[0]
    others = titles(kept) - {"Nile"}
    [block_id] = [block["block_id"] for block in kept.payload["evidence"] if block["title"] == "Nile"]
    deploy_confirmed(another_snapshot(folders, tmp_path))
    IndexGeneration.every.filter(pk=answering.index_id).update(removed_at=timezone.now())
    assert block_id in purging.blocks_of(["Nile"])
    assert purging.purge(["Nile"], by=None).answers == 1
    kept.refresh_from_db()
    assert titles(kept) == others
    assert articles.kept_copy(block_id, kept, AskedAnswer.objects.all(), ()) is None
    assert GoneBlock.objects.get(block_id=block_id).change.kind == "purged"


@pytest.mark.postgresql_first
def test_one_that_was_added_again_is_another_document(
    answering: Deployment, folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    """It stays where it is, and is brought over to an index whose own one is masked."""
    purging.purge(["Nile"], by=None)
    documents.add([NILE], by=None)
    kept = read_of("Nile")[0]
    later = another_snapshot(folders, tmp_path)
    deploy_confirmed(later)
    assert read_of("Nile") == []
    waiting = bringing.waiting()
    assert waiting is not None and waiting.documents == ("Nile",)
    bringing.bring(by=None)
    assert show("Nile").text == "The Nile is a river in Africa, written anew." and masks.unmasked_purges(later) is None
    kept.refresh_from_db()
    assert kept.purged_at is None and masks.unmasked_purges(answering.index) is None
    purging.purge(["Nile"], by=None)
    assert {row.status for row in Document.objects.filter(document_id="Nile")} == {"purged"}


@pytest.mark.postgresql_first
def test_a_purge_at_the_moment_of_a_deployment_stops_it(
    answering: Deployment, another_index: IndexGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = deploying.check(another_index)
    monkeypatch.setattr(purging, "_places", lambda index: [(index, None)])  # it does not see the other one yet
    meanwhile(monkeypatch, masks, "mask_purged", lambda: purging.purge(["Nile"], by=None), behind=True)
    with pytest.raises(RealmError, match="purged meanwhile"):
        deploying.deploy(another_index, confirmed=found.digest)
    deploy_confirmed(another_index)
    assert read_of("Nile") == []


@pytest.mark.postgresql_first
def test_a_purge_that_rewrites_what_is_being_masked_is_followed(
    answering: Deployment, another_index: IndexGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents.add([DocumentInput(Text("Turku is a city in Finland."), "turku", "Turku")], by=None)
    deploy_confirmed(another_index)
    with monkeypatch.context() as patch:
        patch.setattr(purging, "_places", lambda index: [(index, None)])  # it does not see the other one yet
        purging.purge(["Nile"], by=None)

    def purged() -> None:
        purging.purge(["turku"], by=None)
        living._views.clear()

    meanwhile(monkeypatch, masks, "opened", purged)
    living._views.clear()
    assert masks.mask_purged(answering.index, by=None) == 1
    assert masks.unmasked_purges(answering.index) is None


def test_edits_without_end_are_told_to_who_deploys(
    answering: Deployment, another_index: IndexGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(*_: Any) -> None:
        raise Overtaken

    monkeypatch.setattr(purging, "_places", lambda index: [(index, None)])
    purging.purge(["Nile"], by=None)
    monkeypatch.setattr(masks, "_commit", overtaken)
    with pytest.raises(RealmError, match=r"^Documents are being edited at this moment; deploy again\.$"):
        deploy_confirmed(another_index)


def test_an_index_that_cannot_be_read_stops_no_purge(answering: Deployment, another_index: IndexGeneration) -> None:
    (resolve(another_index.path) / "manifest.json").write_text("{")
    assert purging.purge(["Nile"], by=None).document_ids == ["Nile"]
    assert read_of("Nile") == []
