"""The management commands, with realm_core's activities replaced by their results."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

import webapp.management.commands.setup_data as command
import webapp.services.core as core
from realm_core.errors import RealmError, Stopped
from tests.web.conftest import FakeEngine, Loader
from webapp.models import AskedAnswer, CorpusSnapshot, Deployment, IndexGeneration, ModelVersion, QuestionSet
from webapp.services.places import corpora_dir, indexes_dir

pytestmark = pytest.mark.django_db


def run(*arguments: Any, **options: Any) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, **options)
    return out.getvalue()


# ---- ask


def test_ask_as_json_prints_the_object_of_the_api(engine: FakeEngine, client: Any) -> None:
    printed = json.loads(run("ask", "Who directed it?", "--k", "2", "--json"))
    assert engine.asked == [("Who directed it?", 2, ())]
    assert printed == client.get(f"/api/v1/answers/{printed['id']}").json()
    assert engine.closed


def test_ask_for_people(engine: FakeEngine) -> None:
    said = run("ask", "Who directed it?")
    assert said.startswith("Stanley Kubrick   (probability 0.5")
    assert "[Stanley Kubrick]" in said and "posterior" in said and "Others: Arthur C. Clarke" in said
    assert AskedAnswer.objects.count() == 1


@pytest.mark.parametrize(("arguments", "said"), [(("",), "Write a question"), (("Who?", "--k", "0"), "between 1 and")])
def test_ask_what_cannot_be_asked(loader: Loader, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run("ask", *arguments)


def test_ask_while_nothing_is_deployed(loader: Loader) -> None:
    with pytest.raises(CommandError, match="Nothing is deployed"):
        run("ask", "Who?")


# ---- setup_data


class Activities:
    """Stands in for `run_activity`: makes the folders that the activities would, and counts them."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def __call__(self, name: str, *arguments: str | Path) -> dict[str, Any]:
        self.ran.append(name)
        words = [str(argument) for argument in arguments]
        given = dict(zip(words[::2], words[1::2], strict=True))
        folder = Path(given["--output"]) / (given["--name"] + "/snap" if name == "ingest" else "")
        manifest: dict[str, Any]
        if name == "ingest":
            manifest = {
                "snapshot_id": "snap",
                "name": given["--name"],
                "articles": 3,
                "blocks": 5,
                "source": given["--source"],
                "language": "en",
                "licence": "CC BY-SA 4.0",
                "attribution": "Wikipedia",
            }
        else:
            generation = given.get("--generation", f"gen-{len(self.ran)}")
            folder = Path(given["--output"]) / generation
            model = json.loads((Path(given["--model"]) / "config.json").read_text())
            manifest = {
                "generation": generation,
                "snapshot_id": "snap",
                "model_hash": model["hash"],
                "block_hash": model["block"],
                "rows": 5,
                "dim": 4,
                "shards": [{"file": "vectors-00000.safetensors"}],
            }
        assert not folder.exists(), "it would be taken for finished"
        folder.mkdir(parents=True)
        (folder / "vectors-00000.safetensors").write_bytes(b"")
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return {"path": str(folder)}


@pytest.fixture
def activities(monkeypatch: pytest.MonkeyPatch) -> Activities:
    stand_in = Activities()
    monkeypatch.setattr(command, "run_activity", stand_in)
    monkeypatch.setattr("webapp.services.registering.read_hashes", _read_hashes)
    for folder in (corpora_dir(), indexes_dir()):
        shutil.rmtree(folder, ignore_errors=True)
    return stand_in


def _read_hashes(folder: Path) -> tuple[str, str]:
    config = json.loads((folder / "config.json").read_text())
    return config["hash"], config["block"]


@pytest.fixture
def setup(tmp_path: Path, activities: Activities) -> Callable[[], str]:
    write_model(tmp_path, "one", "block-one")
    return lambda: run("setup_data", "--model", str(tmp_path / "realm-mini"))


def write_model(folder: Path, model_hash: str, block_hash: str) -> None:
    (folder / "realm-mini").mkdir(exist_ok=True)
    (folder / "realm-mini" / "config.json").write_text(json.dumps({"hash": model_hash, "block": block_hash}))
    (folder / "realm-mini" / "README.md").write_text("# A small model")


def test_a_first_run(setup: Callable[[], str], activities: Activities) -> None:
    said = setup()
    assert activities.ran == ["ingest", "index"]
    corpus, model, index = CorpusSnapshot.objects.get(), ModelVersion.objects.get(), IndexGeneration.objects.get()
    assert (corpus.name, corpus.blocks, corpus.path) == ("vital-en", 5, "corpora/vital-en/snap")
    assert (model.name, model.model_hash, model.card) == ("realm-mini", "one", "# A small model")
    assert (index.model, index.corpus, index.rows) == (model, corpus, 5)
    active = Deployment.active()
    assert active is not None and (active.model, active.index) == (model, index)
    sets = {one.name: (one.purpose, one.questions) for one in QuestionSet.objects.all()}
    assert sets == {"plain-dev": ("measure", 183), "plain-test": ("measure", 100), "plain-train": ("learn", 13_375)}
    password = said.split("password “")[1].split("”")[0]
    admin = User.objects.get()
    assert admin.is_superuser and admin.check_password(password) and password not in admin.password
    assert "10,000" not in said and "3 articles in 5 blocks" in said


def test_a_second_run_does_nothing(setup: Callable[[], str], activities: Activities) -> None:
    setup()
    assert setup() == ""
    assert activities.ran == ["ingest", "index"] and Deployment.objects.count() == 1


@pytest.mark.parametrize("lost", ["folder", "manifest.json", "vectors-00000.safetensors"])
def test_a_lost_index_is_built_again_under_its_name(
    setup: Callable[[], str], activities: Activities, lost: str
) -> None:
    setup()
    index = IndexGeneration.objects.get()
    folder = indexes_dir() / index.generation
    if lost == "folder":
        shutil.rmtree(folder)
    else:
        (folder / lost).unlink()
    assert "built again" in setup()
    assert activities.ran == ["ingest", "index", "index"] and (folder / "manifest.json").exists()
    assert IndexGeneration.objects.get() == index and Deployment.objects.count() == 1


def test_a_lost_corpus_is_read_again(setup: Callable[[], str], activities: Activities) -> None:
    setup()
    shutil.rmtree(corpora_dir())
    setup()
    assert activities.ran == ["ingest", "index", "ingest"] and CorpusSnapshot.objects.count() == 1


def test_a_newer_model_that_came_with_the_source_is_deployed(
    setup: Callable[[], str], activities: Activities, tmp_path: Path
) -> None:
    setup()
    write_model(tmp_path, "two", "block-one")  # reads better, embeds blocks as before
    assert "is newer" in _note(setup)
    assert activities.ran == ["ingest", "index"]
    write_model(tmp_path, "three", "block-three")
    assert "is newer" in _note(setup)
    assert activities.ran == ["ingest", "index", "index"]
    assert [m.model_hash for m in ModelVersion.objects.order_by("pk")] == ["one", "two", "three"]


def _note(setup: Callable[[], str]) -> str:
    setup()
    active = Deployment.active()
    assert active is not None
    return active.note


def test_what_staff_deployed_stays(setup: Callable[[], str], tmp_path: Path) -> None:
    setup()
    index = IndexGeneration.objects.get()
    theirs = Deployment.activate(index, note="theirs")
    setup()
    assert Deployment.active() == theirs


def test_a_deployment_whose_files_are_gone_is_replaced(setup: Callable[[], str]) -> None:
    setup()
    first = IndexGeneration.objects.get()
    gone = IndexGeneration.objects.create(
        generation="gone", model=first.model, corpus=first.corpus, path="indexes/gone", rows=5, dim=4
    )
    Deployment.activate(gone)
    assert "files" in setup().lower()
    active = Deployment.active()
    assert active is not None and active.index.generation != "gone"


def test_an_administrator_that_is_there_is_left_alone(setup: Callable[[], str]) -> None:
    User.objects.create_superuser("root", password="p")
    assert "password" not in setup()
    assert User.objects.count() == 1


def test_a_missing_model_is_told(activities: Activities, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is missing") as caught:
        run("setup_data", "--model", str(tmp_path / "nowhere"))
    assert caught.value.returncode == 2


# ---- realm_core in a process of its own


@pytest.mark.parametrize(("status", "error"), [(2, RealmError), (3, Stopped), (1, RealmError), (-9, RealmError)])
def test_how_an_activity_ends(monkeypatch: pytest.MonkeyPatch, status: int, error: type[Exception]) -> None:
    monkeypatch.setattr(core.subprocess, "run", lambda *_a, **_k: core.subprocess.CompletedProcess([], status))
    with pytest.raises(error):
        core.run_activity("index")


def test_an_activity_s_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(command: list[str], **_options: Any) -> Any:
        assert command[1:4] == ["-m", "realm_core", "index"] and command[-2] == "--run"
        (Path(command[-1]) / "result.json").write_text('{"path": "x"}')
        return core.subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(core.subprocess, "run", finish)
    assert core.run_activity("index", "--model", Path("m")) == {"path": "x"}
