"""The way out of an ingested corpus for a document that was purged: a fold, then the removal of index and corpus."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import call_command

import webapp.management.commands.setup_data as setup
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tables import derived_folders
from realm_core.corpus.tokens import open_tokens
from realm_core.errors import RealmError
from realm_core.files import sha256_of_file
from realm_core.index.postings import keep_postings
from realm_core.object_store import put_folder
from realm_core.runs.activity import Activity
from tests.tiny import ARTICLES
from tests.web.asked import ask
from tests.web.conftest import Person
from tests.web.documents import folds
from tests.web.documents.conftest import copied, titles
from webapp.artefacts import removing, retention
from webapp.artefacts.uses import uses
from webapp.documents import folding
from webapp.models import CorpusSnapshot, Deployment, IndexGeneration, Job, Purge
from webapp.purges import service as purging
from webapp.purges.remaining import RemovalStage, held_folders
from webapp.storage.places import portable, resolve

pytestmark = pytest.mark.postgresql_first
# Words of the purged article that no other has; texts are stored as they are.
SECRET = ARTICLES["Nile"].split(". ")[0].encode()


@pytest.fixture
def folders(folders: tuple[Path, Path, Path], tmp_path: Path) -> tuple[Path, Path, Path]:
    """The tiny deployment, copied to the data folder, from which it can be removed."""
    return copied(folders, tmp_path)


def holding(data: Path) -> list[Path]:
    """The files that hold the article's text, the database aside."""
    files = [path for path in data.rglob("*") if path.is_file() and "sqlite3" not in path.name]
    return [path for path in files if SECRET in path.read_bytes()]


def stages(purge: Any) -> list[str]:
    return [one.stage for one in held_folders(purge)]


def hashes(*records: IndexGeneration | CorpusSnapshot) -> dict[str, str]:
    """The SHA-256 of each file of the records' folders, by its path in the data folder."""
    files = [path for one in records for path in resolve(one.path).rglob("*") if path.is_file()]
    return {portable(path): sha256_of_file(path) for path in files}


def named(purge: Purge) -> dict[str, str]:
    """The same of the files that a receipt says are no more."""
    purge.refresh_from_db()
    assert len({one["path"] for one in purge.files}) == len(purge.files)
    return {one["path"]: one["sha256"] for one in purge.files}


def test_no_file_has_it_in_the_end(answering: Deployment, staff: Person, client: Any, tmp_path: Path) -> None:
    """Every step as an admin takes it: the receipt's page offers the next one."""
    client.force_login(staff.user)
    index, corpus = answering.index, answering.index.corpus
    open_tokens(Snapshot.open(resolve(corpus.path)), Activity(quiet=True))
    keep_postings(Snapshot.open(resolve(corpus.path)), Activity(quiet=True))
    assert len(derived_folders(resolve(corpus.path))) == 2
    ask("Where is the Nile?", k=20)
    assert holding(tmp_path)

    purge = purging.purge(["Nile"], by=None)
    receipt, address = f"/manage/documents/purges/{purge.pk}/", f"/api/v1/purges/{purge.pk}"
    assert stages(purge) == [RemovalStage.ANSWERS, RemovalStage.ANSWERS] and not folding.edits(index).worth_folding
    assert "Fold without it" in client.get(receipt).content.decode()
    assert {one["index"] or one["corpus"] for one in client.get(address).json()["holding"]} == {index.pk, corpus.pk}
    assert uses(index) and uses(corpus)

    held = hashes(index, corpus)
    assert purge.files == [] and len(held) > 4
    folds.fold()
    index.refresh_from_db()
    page = client.get(receipt).content.decode()
    assert "Fold without it" not in page and f"/manage/indexes/{index.pk}/remove/" in page
    assert sorted(stages(purge)) == [RemovalStage.REMOVABLE, RemovalStage.USED] and "remove that first" in page
    client.post(f"/manage/indexes/{index.pk}/remove/")
    assert named(purge) == {path: one for path, one in held.items() if path.startswith(f"{index.path}/")}
    assert f"/manage/corpora/{corpus.pk}/remove/" in client.get(receipt).content.decode()
    client.post(f"/manage/corpora/{corpus.pk}/remove/")

    assert stages(purge) == [RemovalStage.REMOVED, RemovalStage.REMOVED] and holding(tmp_path) == []
    assert not derived_folders(resolve(corpus.path))
    page = client.get(receipt).content.decode()
    assert "No file of this corpus." in page and f"{corpus.path}/articles.arrow" in page
    assert named(purge) == held
    told = client.get(address).json()["files"]
    assert {one["path"]: one["sha256"] for one in told} == held and not any(one["successor"] for one in told)
    assert {one["stage"] for one in client.get(address).json()["holding"]} == {"removed"}
    assert titles() == set(ARTICLES) - {"Nile"}


def test_a_receipt_names_the_files_that_the_rule_removes(
    answering: Deployment, another_index: IndexGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    purge = purging.purge(["Nile"], by=None)
    purge.remaining = [*{*purge.remaining, another_index.path}]
    purge.save()
    held = hashes(another_index)
    removal = retention.Removal(another_index, (resolve(another_index.path),), 0)
    monkeypatch.setattr(retention, "removable", lambda *_: [removal])
    with monkeypatch.context() as context:
        context.setattr(retention, "_hide", refuse)  # the removal is interrupted, and done again
        assert retention.remove(by=None) == []
    assert retention.remove(by=None) == [removal]
    assert named(purge) == held and not resolve(another_index.path).exists()


def refuse(*_: Path) -> None:
    raise RealmError("The disk takes no changes.")


def test_a_receipt_takes_hashes_from_the_store_where_the_files_are_not_here(
    answering: Deployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    index = answering.index
    monkeypatch.setenv("REALM_STORE", f"file://{tmp_path / 'store'}")
    monkeypatch.setenv("REALM_DATA", str(tmp_path))
    purge = purging.purge(["Nile"], by=None)
    folds.fold()
    held = hashes(index)
    put_folder(resolve(index.path))
    shutil.rmtree(resolve(index.path))
    removing.remove(IndexGeneration.objects.get(pk=index.pk), by=None)
    assert named(purge) == held


def test_what_is_damaged_is_removed_without_being_named(answering: Deployment) -> None:
    purge = purging.purge(["Nile"], by=None)
    folds.fold()
    (resolve(answering.index.path) / "manifest.json").write_text("{}")
    removing.remove(IndexGeneration.objects.get(pk=answering.index_id), by=None)
    assert named(purge) == {} and not resolve(answering.index.path).exists()


def test_while_it_is_folded_the_receipt_leads_to_the_job(answering: Deployment, staff: Person, client: Any) -> None:
    client.force_login(staff.user)
    purge = purging.purge(["Nile"], by=None)
    client.post("/manage/documents/fold/")
    page = client.get(f"/manage/documents/purges/{purge.pk}/").content.decode()
    assert f"/manage/jobs/{Job.objects.get().pk}/" in page and "Fold without it" not in page


def test_another_index_of_the_corpus_is_named(answering: Deployment, another_index: IndexGeneration) -> None:
    """The corpus cannot go before all its indexes have."""
    purge = purging.purge(["Nile"], by=None)
    folds.fold()
    removing.remove(answering.index, by=None)
    [corpus] = [one for one in held_folders(purge) if not one.is_index and one.stage != RemovalStage.REMOVED]
    assert corpus.stage == RemovalStage.USED and another_index.generation in corpus.reasons[0]
    removing.remove(another_index, by=None)
    assert RemovalStage.REMOVABLE in stages(purge)


def test_the_default_corpus_is_not_ingested_again_where_its_fold_answers(
    answering: Deployment, settings: LazySettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = answering.index.corpus.name
    purging.purge(["Nile"], by=None)
    after = folds.fold()
    removing.remove(answering.index, by=None)
    removing.remove(answering.index.corpus, by=None)

    def ingests(*_: Any) -> Any:
        raise AssertionError("something is made again")

    monkeypatch.setattr(setup, "run_activity", ingests)
    monkeypatch.setattr(setup, "DEFAULT_QUESTIONS", {})
    call_command("setup_data", "--name", name)
    assert Deployment.active() == after and CorpusSnapshot.objects.get(name=name) == after.index.corpus
    assert holding(tmp_path) == []
