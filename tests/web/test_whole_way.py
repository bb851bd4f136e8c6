"""The whole way with a real, tiny model: folders → records → deployment → page, API and command line."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError
from django.test import Client

import webapp.serving.engine
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from tests.tiny import tiny_deployment, tiny_filler
from tests.web.command_line import command
from tests.web.conftest import Person
from tests.web.operating import job as stored_job
from tests.web.pages.pages import figures
from webapp.artefacts.registering import record_corpus, record_index, record_model
from webapp.deployments.service import deploy
from webapp.models import (
    AskedAnswer,
    CorpusSnapshot,
    Deployment,
    IndexGeneration,
    Job,
    ModelVersion,
    Schedule,
    Trigger,
)
from webapp.schedules import service as scheduling
from webapp.serving.engine import holder

QUESTION = "Who directed 2001: A Space Odyssey?"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    return tiny_deployment(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def filler(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    return tiny_filler(tmp_path_factory.mktemp("filler"))


@pytest.fixture
def deployed(db: None, folders: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    yield from _deployed(folders, monkeypatch)


@pytest.fixture
def deployed_filler(db: None, filler: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    yield from _deployed(filler, monkeypatch)


def _deployed(folders: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setattr(webapp.serving.engine, "_holder", None)
    model, index, corpus = folders
    record_corpus(corpus)
    record_model(model)
    deployment = deploy(record_index(index))
    holder().refresh(wait=True)
    yield deployment
    holder().close()


def test_page_api_and_command_line_tell_the_same(client: Client, deployed: Deployment) -> None:
    response = client.post("/api/v1/ask", json.dumps({"question": QUESTION, "k": 4}), content_type="application/json")
    assert response.status_code == 201
    body = response.json()
    assert len(body["evidence"]) == 4
    assert sum(block["prior"] for block in body["evidence"]) == pytest.approx(1, abs=1e-4)
    assert sum(block["posterior"] for block in body["evidence"]) == pytest.approx(1, abs=1e-4)
    explained = body["answer"]["probability"] if body["explains"] == "answer" else body["no_answer_probability"]
    total = sum(block["prior"] * block["likelihood"] for block in body["evidence"])
    assert total == pytest.approx(explained, abs=1e-4)

    best = body["evidence"][0]
    block = client.get(f"/api/v1/blocks/{best['block_id']}").json()
    assert (block["text"], block["title"], block["corpus"]) == (best["text"], best["title"], body["corpus"])
    assert client.get(f"/answers/{body['id']}/").status_code == 200

    less = client.get(f"/api/v1/answers/{body['id']}?without={best['block_id']}").json()
    assert [b["block_id"] for b in less["evidence"]] != [b["block_id"] for b in body["evidence"]]
    assert sum(block["prior"] for block in less["evidence"]) == pytest.approx(1, abs=1e-4)

    found = client.post("/api/v1/retrieve", json.dumps({"question": QUESTION, "k": 4}), content_type="application/json")
    assert {b["block_id"] for b in found.json()["blocks"]} == {b["block_id"] for b in body["evidence"]}

    printed = json.loads(command("ask", QUESTION, "--k", "4", "--json"))
    assert [b["block_id"] for b in printed["evidence"]] == [b["block_id"] for b in body["evidence"]]
    assert printed.keys() == body.keys() and AskedAnswer.objects.count() == 2


def test_page_and_api_fill_alike(client: Client, deployed_filler: Deployment) -> None:
    asked = {"sentence": "Stanley Kubrick was an American film [MASK].", "truth": "director"}
    response = client.post("/api/v1/fill", json.dumps(asked), content_type="application/json")
    assert response.status_code == 200
    body = response.json()
    assert len(body["evidence"]) == 8 and body["truth"]["words"] == ["director"]
    assert sum(block["prior"] * block["likelihood"] for block in body["evidence"]) == pytest.approx(
        body["truth"]["marginal"], rel=1e-9
    )
    page = client.get("/fill/", asked).content.decode()
    shown = {value for value, _ in figures(page)}
    assert {block["likelihood"] for block in body["evidence"]} <= shown
    assert {body["truth"][way] for way in ("without_retrieval", "best_block", "marginal")} <= shown
    stretched = client.post(
        "/api/v1/fill", json.dumps({**asked, "truth": "Kubrick"}), content_type="application/json"
    ).json()
    assert stretched["sentence"].count("[MASK]") == 2 and stretched["truth"]["text"] == "kubrick"
    too_long = {"sentence": "long " * 94 + "[MASK]"}
    response = client.post("/api/v1/fill", json.dumps(too_long), content_type="application/json")
    assert response.status_code == 422 and "too long" in response.json()["detail"]


def test_a_model_without_an_encoder_reads_the_gap(client: Client, deployed: Deployment) -> None:
    body = json.dumps({"sentence": "Mars is the [MASK] planet from the Sun."})
    response = client.post("/api/v1/fill", body, content_type="application/json")
    assert response.status_code == 200 and response.json()["filled_by"] == "reader"
    assert "no encoder of masked sentences" in client.get("/fill/").content.decode()


def test_what_the_records_say(deployed: Deployment, folders: tuple[Path, Path, Path]) -> None:
    snapshot = Snapshot.open(folders[2])
    corpus, model, index = CorpusSnapshot.objects.get(), ModelVersion.objects.get(), IndexGeneration.objects.get()
    assert (corpus.snapshot_id, corpus.blocks, corpus.articles) == (snapshot.snapshot_id, len(snapshot), 12)
    assert (corpus.licence, corpus.attribution) == ("CC BY-SA 4.0", "Written for the tests")
    assert index.model == model and index.rows == len(snapshot) and index.dim == 16
    assert len(model.model_hash) == len(model.block_hash) == 16


def test_recording_again_changes_nothing(deployed: Deployment, folders: tuple[Path, Path, Path]) -> None:
    assert record_corpus(folders[2]) == CorpusSnapshot.objects.get()
    assert record_model(folders[0]) == ModelVersion.objects.get()
    assert record_index(folders[1]) == IndexGeneration.objects.get()


def test_the_same_articles_under_another_name_are_the_corpus_that_was_there(
    deployed: Deployment, folders: tuple[Path, Path, Path], tmp_path: Path, staff: Person
) -> None:
    there = CorpusSnapshot.objects.get()
    again = tmp_path / "again" / there.snapshot_id
    shutil.copytree(folders[2], again)
    reading = stored_job(kind="ingest", state="succeeded", result={"corpus": there.pk})
    assert record_corpus(again, job=reading).path == there.path
    said = staff.client.get(f"/manage/jobs/{reading.pk}/").content.decode()
    assert f'id="made-corpus-{there.pk}"' in said and "It was there already" in said
    shutil.move(folders[2], tmp_path / "lost")
    assert record_corpus(again, job=reading).path == str(again)
    shutil.move(tmp_path / "lost", folders[2])


@pytest.mark.django_db
def test_a_model_that_is_registered_begins_what_waits_for_a_new_one(folders: tuple[Path, Path, Path]) -> None:
    corpus = record_corpus(folders[2])
    schedule = scheduling.save(Schedule(corpus_name=corpus.name, trigger=Trigger.NEW_MODEL), by=None)
    said = command("register_model", str(folders[0]))
    job = Job.objects.get()
    model = ModelVersion.objects.get()
    assert (job.kind, job.parameters["model"], job.parameters["corpus"]) == ("index", model.pk, corpus.pk)
    assert f"job {job.pk}." in said
    command("register_model", str(folders[0]))  # it is not new any more
    schedule.refresh_from_db()
    assert schedule.last_job == job and Job.objects.count() == 1


@pytest.mark.django_db
def test_register_model(folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    said = command("register_model", str(folders[0]), "--name", "mine")
    first = ModelVersion.objects.get()
    assert first.name == "mine" and first.model_hash in said
    with pytest.raises(CommandError, match="No model with the hash"):
        command("register_model", str(folders[0]), "--parent", "f" * 16)
    with pytest.raises(CommandError, match="does not exist"):
        command("register_model", str(tmp_path))
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(CommandError, match="does not describe a model"):
        command("register_model", str(tmp_path))


@pytest.fixture
def _signals() -> Iterator[None]:
    """The command listens to signals, as it may in a process of its own; put back what was there."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.django_db
@pytest.mark.usefixtures("_signals")
def test_ingest(tmp_path: Path) -> None:
    rows = [{"id": "1", "title": "Nile", "text": "The Nile is a river in Africa."}]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["--source", "jsonl", "--path", str(tmp_path / "own.jsonl"), "--name", "own", "--processes", "1"]
    command("ingest", *arguments, verbosity=0)
    corpus = CorpusSnapshot.objects.get()
    assert (corpus.name, corpus.articles, corpus.blocks) == ("own", 1, 1)
    assert (Path(settings.REALM_DATA) / corpus.path / "manifest.json").exists()
    with pytest.raises(CommandError, match="nothing") as caught:
        command("ingest", "--source", "jsonl", "--path", str(tmp_path / "nothing"), "--name", "x", verbosity=0)
    assert caught.value.returncode == 2
    with pytest.raises(CommandError, match="at least 1"):
        command("ingest", "--processes", "0")


@pytest.mark.django_db
def test_what_cannot_be_recorded(folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="is not recorded here"):
        record_index(folders[1])
    record_corpus(folders[2])
    with pytest.raises(RealmError, match="was built by the model"):
        record_index(folders[1])
    (tmp_path / "manifest.json").write_text('{"generation": "x"}')
    with pytest.raises(RealmError, match="lacks block_hash, dim"):
        record_index(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(RealmError, match="does not describe a corpus"):
        record_corpus(tmp_path)
