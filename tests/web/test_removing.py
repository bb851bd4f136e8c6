"""Corpora, models, indexes and question sets are removed when nothing uses them, by page, REST and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from realm_core.errors import RealmError
from realm_core.object_store import put_folder
from tests.web.conftest import Person
from tests.web.console import another_corpus, another_index, another_model
from tests.web.operating import job, question_set
from tests.web.pages import stored
from webapp.artefacts import removing, retention
from webapp.artefacts.registering import record_model
from webapp.artefacts.uses import Removable, uses
from webapp.models import (
    AskedAnswer,
    AuditEntry,
    Deployment,
    IndexGeneration,
    Job,
    JobKind,
    JobState,
    ModelVersion,
    QuestionSet,
    Schedule,
    SpanSet,
    Trigger,
)
from webapp.storage.places import keep_files, portable, resolve

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql_first]


@pytest.fixture
def unused(settings: object) -> Iterator[dict[str, Removable]]:
    """One of each that nothing uses, beside a deployment of others."""
    stored.deployment()
    corpus, model = another_corpus("mine", path="corpora/mine/a"), another_model("mine", block_hash="c" * 16)
    index = another_index(model, "mine", corpus=corpus)
    SpanSet.objects.create(corpus=corpus, path="spans/mine", tagger="dates", spans=1, blocks=3)
    for path in ("corpora/mine/a", "models/mine", "indexes/mine", "spans/mine"):
        resolve(path).mkdir(parents=True)
        (resolve(path) / "file").write_bytes(b"0123456789")
    questions = question_set("mine-only")
    resolve(questions.path).parent.mkdir(exist_ok=True)
    resolve(questions.path).write_text("{}")
    yield {"index": index, "corpus": corpus, "model": model, "questions": questions}
    for place in ("corpora", "models", "indexes", "spans", "questions"):
        shutil.rmtree(resolve(place), ignore_errors=True)


def test_what_nothing_uses_goes_with_its_files_and_stays_named(unused: dict[str, Removable]) -> None:
    sizes = {}
    for name in ("index", "corpus", "model"):
        record = unused[name]
        assert uses(record) == []
        sizes[name] = removing.remove(record, by="Stella")
        assert not resolve(record.path).exists()
        assert not type(record)._default_manager.filter(pk=record.pk).exists()
        assert type(record)._base_manager.filter(pk=record.pk).count() == 1
    assert sizes == {"index": 10, "corpus": 20, "model": 10}  # the corpus with its spans
    assert not SpanSet.objects.exists() and not resolve("spans/mine").exists()
    assert not resolve("corpora/mine").exists()  # it was the only snapshot of this name
    questions = unused["questions"]
    removing.remove(questions, by="Stella")
    assert not QuestionSet.objects.filter(pk=questions.pk).exists() and not resolve(questions.path).exists()
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", "name"))
    assert actions == [(f"{word}.remove", "Stella") for word in ("index", "corpus", "model", "question-set")]
    assert list(resolve(".").rglob("*.removed")) == []


def test_what_is_used_stays_and_says_by_what(unused: dict[str, Removable]) -> None:
    index, corpus, model, questions = (unused[name] for name in ("index", "corpus", "model", "questions"))
    assert isinstance(index, IndexGeneration) and isinstance(model, ModelVersion)
    Job.objects.create(kind=JobKind.EVALUATE, state=JobState.INTERRUPTED, parameters={"questions": [questions.pk]})
    Schedule.objects.create(corpus_name="mine", model=model, trigger=Trigger.NEW_MODEL)
    said = {name: " ".join(uses(record)) for name, record in unused.items()}
    assert said["index"] == ""
    assert "The index mine is of this corpus" in said["corpus"] and "A schedule builds" in said["corpus"]
    assert "The index mine was built by it" in said["model"] and "A schedule builds" in said["model"]
    assert "works on it" in said["questions"]
    for record in (corpus, model, questions):
        with pytest.raises(removing.StillUsed):
            removing.remove(record, by=None)
        assert resolve(record.path).exists() and type(record)._default_manager.filter(pk=record.pk).exists()
    Deployment.activate(index)
    with pytest.raises(removing.StillUsed, match="one of the last"):
        removing.remove(index, by=None)
    IndexGeneration.objects.filter(pk=index.pk).update(pinned=True)
    assert "It is pinned." in uses(IndexGeneration.objects.get(pk=index.pk))
    assert AuditEntry.objects.filter(action__endswith=".remove").count() == 0


def test_kept_answers_stay_whatever_goes(unused: dict[str, Removable], client: Client) -> None:
    index = unused["index"]
    assert isinstance(index, IndexGeneration)
    first = Deployment.objects.get()
    Deployment.activate(index)
    asked = stored.store()
    for _ in range(6):
        Deployment.activate(first.index)
    for name in ("index", "corpus", "model"):
        removing.remove(unused[name], by=None)
    page = client.get(f"/answers/{asked.pk}/")
    assert page.status_code == 200 and AskedAnswer.objects.filter(pk=asked.pk).exists()
    with pytest.raises(RealmError, match="have been removed"):
        Deployment.activate(index)


def test_no_files_are_removed_during_a_backup_or_outside_the_data_folder(
    unused: dict[str, Removable], tmp_path: Path
) -> None:
    with keep_files(), pytest.raises(RealmError, match="backup"):
        removing.remove(unused["questions"], by=None)
    (tmp_path / "own").mkdir()
    corpus = another_corpus("own", path=portable(tmp_path / "own"))
    assert removing.remove(corpus, by=None) == 0 and (tmp_path / "own").exists()


def test_what_was_removed_can_be_there_again(unused: dict[str, Removable], tmp_path: Path) -> None:
    from tests.tiny import tiny_model

    folder = tiny_model(tmp_path)
    model = record_model(folder)
    removing.remove(model, by=None)
    assert not ModelVersion.objects.filter(pk=model.pk).exists()
    again = record_model(folder)
    assert again.pk == model.pk and again.removed_at is None and ModelVersion.objects.filter(pk=model.pk).exists()


@pytest.mark.parametrize(
    ("name", "place", "listed"),
    [
        ("index", "indexes", "indexes"),
        ("model", "models", "models"),
        ("corpus", "corpora", "corpora"),
        ("questions", "questions", "question-sets"),
    ],
)
def test_by_page_and_over_rest(
    unused: dict[str, Removable], staff: Person, outsider: Person, name: str, place: str, listed: str
) -> None:
    record = unused[name]
    address = f"/manage/{place}/{record.pk}/remove/"
    rest = f"/api/v1/{listed}/{record.pk}"
    assert outsider.client.post(address).status_code == 302
    assert outsider.client.delete(rest).status_code in (401, 403)
    page = staff.client.get(address).content.decode()
    if name in ("model", "corpus"):
        assert "The index mine" in page and "Remove it" not in page
        assert staff.client.post(address).status_code == 409
        refused = staff.client.delete(rest)
        assert refused.status_code == 409 and "The index mine" in refused.json()["detail"]
        removing.remove(unused["index"], by=None)
    assert "Remove it" in staff.client.get(address).content.decode()
    if name in ("model", "index"):
        assert staff.client.delete(rest).status_code == 204
    else:
        assert staff.client.post(address).status_code == 302
    assert not resolve(record.path).exists()
    assert staff.client.get(address).status_code == 404 and staff.client.delete(rest).status_code == 404
    if name != "questions":
        shown = staff.client.get(f"/manage/{place}/{record.pk}/")
        assert shown.status_code == 200 and "Its files were removed on" in shown.content.decode()
        assert staff.client.get(rest).json()["removed_at"] is not None


def test_the_page_names_jobs_that_could_not_be_resumed_then(unused: dict[str, Removable], staff: Person) -> None:
    questions = unused["questions"]
    address = f"/manage/questions/{questions.pk}/remove/"
    about = {"kind": "evaluate", "parameters": {"questions": questions.pk}}
    job(state=JobState.SUCCEEDED, **about)
    job(state=JobState.STOPPED, kind="evaluate", parameters={"questions": questions.pk + 1})
    assert "cannot be resumed any more" not in staff.client.get(address).content.decode()
    stopped = job(state=JobState.STOPPED, **about)
    page = staff.client.get(address).content.decode()
    assert f'cannot be resumed any more: <a href="/manage/jobs/{stopped.pk}/">evaluate</a>, stopped.' in page
    assert "Remove it" in page


def test_an_old_removal_is_not_made_twice(unused: dict[str, Removable]) -> None:
    model = unused["index"]
    removing.remove(model, by=None)
    before = IndexGeneration.every.get(pk=model.pk).removed_at
    IndexGeneration.every.filter(pk=model.pk).update(removed_at=timezone.now() - timedelta(days=3))
    removing.remove(model, by=None)
    after = IndexGeneration.every.get(pk=model.pk).removed_at
    assert before is not None and after is not None and after < before


# ── In an object store ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def store(unused: dict[str, Removable], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that has what nothing uses."""
    monkeypatch.setenv("REALM_STORE", f"file://{tmp_path / 'store'}")
    assert all(put_folder(resolve(unused[name].path)) for name in ("index", "corpus", "model"))
    return tmp_path / "store"


def in_store(record: Removable) -> bool:
    return (Path(os.environ["REALM_STORE"].removeprefix("file://")) / record.path / "done.json").exists()


def left() -> list[str]:
    return [path.name for path in resolve(".").rglob(".*.removed")]


def test_what_another_machine_has_goes_from_the_store(unused: dict[str, Removable], store: Path) -> None:
    for name in ("index", "corpus", "model"):
        shutil.rmtree(resolve(unused[name].path))
        removing.remove(unused[name], by=None)
        assert not in_store(unused[name])
    assert left() == []


@pytest.mark.parametrize("here", [True, False])
def test_while_the_store_is_away_it_is_kept_in_mind(unused: dict[str, Removable], store: Path, here: bool) -> None:
    removing.remove(unused["index"], by=None)
    corpus = unused["corpus"]
    if not here:
        shutil.rmtree(resolve(corpus.path))
    store.rename(store.with_name("away"))
    store.write_text("no folder")
    with pytest.raises(RealmError, match="cannot be removed"):
        removing.remove(corpus, by=None)
    assert not resolve(corpus.path).exists() and not resolve("spans/mine").exists()
    retention.finish()
    store.unlink()
    store.with_name("away").rename(store)
    assert in_store(corpus) and left() != []
    retention.finish()
    assert not in_store(corpus) and left() == []


@pytest.mark.parametrize("here", [True, False])
def test_what_was_made_again_since_stays_in_the_store(unused: dict[str, Removable], store: Path, here: bool) -> None:
    """Here, or on another machine, of which the record tells."""
    index = unused["index"]
    (resolve("indexes") / ".mine.removed").mkdir()
    if not here:
        shutil.rmtree(resolve(index.path))
    else:
        IndexGeneration.every.filter(pk=index.pk).update(removed_at=timezone.now())  # not recorded again yet
    retention.finish()
    assert in_store(index) and left() == []


def test_what_a_fold_superseded_goes_wherever_it_is(unused: dict[str, Removable], store: Path) -> None:
    made, corpus = unused["index"], unused["corpus"]
    assert isinstance(made, IndexGeneration)
    stored.deployment()
    last = another_index(made.model, "last")
    another_index(made.model, "first", folded_into=made)
    IndexGeneration.objects.filter(pk=made.pk).update(folded_into=last)
    for record in (made, corpus):
        shutil.rmtree(resolve(record.path))
    later = timezone.now() + timedelta(days=2)
    assert removing.remove_superseded(by="retention", now=later) == [str(made), str(corpus)]
    assert not in_store(made) and not in_store(corpus)
    assert removing.remove_superseded(by="retention", now=later) == []
