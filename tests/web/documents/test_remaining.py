"""The way out of an ingested corpus for a document that was purged: a fold, then the removal of index and corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import call_command

import webapp.management.commands.setup_data as setup
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tables import derived_folders
from realm_core.corpus.tokens import open_tokens
from realm_core.index.postings import keep_postings
from realm_core.runs.activity import Activity
from tests.tiny import ARTICLES
from tests.web.asked import ask
from tests.web.conftest import Person
from tests.web.documents import folds
from tests.web.documents.conftest import copied, titles
from webapp.artefacts import removing
from webapp.artefacts.uses import uses
from webapp.documents import folding
from webapp.models import CorpusSnapshot, Deployment, IndexGeneration, Job
from webapp.purges import service as purging
from webapp.purges.remaining import RemovalStage, held_folders
from webapp.storage.places import resolve

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

    folds.fold()
    index.refresh_from_db()
    page = client.get(receipt).content.decode()
    assert "Fold without it" not in page and f"/manage/indexes/{index.pk}/remove/" in page
    assert sorted(stages(purge)) == [RemovalStage.REMOVABLE, RemovalStage.USED] and "remove that first" in page
    client.post(f"/manage/indexes/{index.pk}/remove/")
    assert f"/manage/corpora/{corpus.pk}/remove/" in client.get(receipt).content.decode()
    client.post(f"/manage/corpora/{corpus.pk}/remove/")

    assert stages(purge) == [RemovalStage.REMOVED, RemovalStage.REMOVED] and holding(tmp_path) == []
    assert not derived_folders(resolve(corpus.path))
    assert "No file of this corpus." in client.get(receipt).content.decode()
    assert {one["stage"] for one in client.get(address).json()["holding"]} == {"removed"}
    assert titles() == set(ARTICLES) - {"Nile"}


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
