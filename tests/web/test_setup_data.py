"""`manage.py setup_data`, with realm_core's activities replaced by their results."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.utils import timezone

import webapp.management.commands.setup_data as setting_up
from realm_core.corpus.tables import FORMAT as CORPUS_FORMAT
from realm_core.corpus.tables import postings_folder
from realm_core.errors import RealmError
from realm_core.files import read_json, write_json
from realm_core.index.manifest import FORMAT as INDEX_FORMAT
from realm_core.index.manifest import SHIPPED
from realm_core.model.identity import read_hashes
from tests.web.command_line import command
from tests.web.console import another_corpus, another_index, another_model
from webapp.deployments import service as deploying
from webapp.models import (
    AuditEntry,
    CorpusSnapshot,
    Deployment,
    IndexGeneration,
    ModelVersion,
    Purpose,
    QuestionSet,
)
from webapp.questions import service as questions
from webapp.storage.places import corpora_dir, first_password_path, indexes_dir, models_dir, resolve

pytestmark = pytest.mark.django_db
SHIPPED_QUESTIONS = setting_up.DEFAULT_QUESTIONS


class Activities:
    """Stands in for `run_activity`: makes the folders that the activities would, and counts them."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def __call__(self, name: str, *arguments: str | Path) -> dict[str, Any]:
        self.ran.append(name)
        given = dict(str(argument).split("=", 1) for argument in arguments)
        folder = Path(given["--output"]) / (given["--name"] + "/snap" if name == "ingest" else "")
        manifest: dict[str, Any]
        if name == "ingest":
            manifest = {
                "format": CORPUS_FORMAT,
                "files": {"blocks.arrow": sha256(b"").hexdigest()},
                "snapshot_id": "snap",
                "name": given["--name"],
                "articles": 3,
                "blocks": 5,
                "source": given.get("--source", "default"),
                "language": "en",
                "licence": "CC BY-SA 4.0",
                "attribution": "Wikipedia",
            }
        else:
            generation = given.get("--generation", f"gen-{len(self.ran)}")
            folder = Path(given["--output"]) / generation
            model_hash, block_hash = read_hashes(Path(given["--model"]))
            manifest = {
                "format": INDEX_FORMAT,
                "generation": generation,
                "snapshot_id": "snap",
                "model_hash": model_hash,
                "block_hash": block_hash,
                "rows": 5,
                "dim": 4,
                "shards": [{"file": "vectors-00000.safetensors", "sha256": sha256(b"").hexdigest()}],
            }
        assert not folder.exists(), "it would be taken for finished"
        folder.mkdir(parents=True)
        (folder / ("blocks.arrow" if name == "ingest" else "vectors-00000.safetensors")).write_bytes(b"")
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return {"path": str(folder)}


@pytest.fixture
def activities(monkeypatch: pytest.MonkeyPatch) -> Activities:
    stand_in = Activities()
    monkeypatch.setattr(setting_up, "run_activity", stand_in)
    # To read thirteen thousand questions takes half a second, and most tests are about other things.
    few = {name: purpose for name, purpose in SHIPPED_QUESTIONS.items() if purpose == Purpose.MEASURE}
    monkeypatch.setattr(setting_up, "DEFAULT_QUESTIONS", few)
    for folder in (corpora_dir(), indexes_dir(), models_dir()):
        shutil.rmtree(folder, ignore_errors=True)
    first_password_path().unlink(missing_ok=True)
    return stand_in


@pytest.fixture
def setup(tmp_path: Path, activities: Activities) -> Callable[[], str]:
    write_model(tmp_path, "one", "block-one")
    return lambda: command("setup_data", "--model", str(tmp_path / "realm-mini"))


def write_model(folder: Path, weights: str, block_hash: str) -> None:
    """The folder that comes with the source, as git makes it: new files in the place of the old ones."""
    shutil.rmtree(folder / "realm-mini", ignore_errors=True)
    (folder / "realm-mini").mkdir()
    config = {"weights_sha256": sha256(weights.encode()).hexdigest(), "block_hash": block_hash, "model": {}}
    (folder / "realm-mini" / "config.json").write_text(json.dumps(config))
    (folder / "realm-mini" / "model.safetensors").write_text(weights)
    (folder / "realm-mini" / "README.md").write_text("# A small model")


def test_a_first_run(setup: Callable[[], str], activities: Activities, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting_up, "DEFAULT_QUESTIONS", SHIPPED_QUESTIONS)
    said = setup()
    assert activities.ran == ["ingest", "index"]
    corpus, model, index = CorpusSnapshot.objects.get(), ModelVersion.objects.get(), IndexGeneration.objects.get()
    assert (corpus.name, corpus.blocks, corpus.path) == ("vital-en", 5, "corpora/vital-en/snap")
    own = f"models/realm-mini-{model.model_hash[:8]}"
    assert (model.name, model.path, model.card) == ("realm-mini", own, "# A small model")
    assert (index.model, index.corpus, index.rows) == (model, corpus, 5)
    active = Deployment.active()
    assert active is not None and (active.model, active.index) == (model, index)
    entry = AuditEntry.objects.get(action="deploy")
    assert (entry.action, entry.name, entry.details["deployment"]) == ("deploy", "setup", active.pk)
    sets = {one.name: (one.purpose, one.questions) for one in QuestionSet.objects.all()}
    assert sets == {
        "plain-dev": ("measure", 183),
        "plain-test": ("measure", 100),
        "unanswerable-dev": ("measure", 120),
        "plain-train": ("learn", 13_375),
    }
    assert User.objects.get().is_superuser
    assert "10,000" not in said and "3 articles in 5 blocks" in said


def test_a_second_run_does_nothing(setup: Callable[[], str], activities: Activities) -> None:
    setup()
    assert setup() == ""
    assert activities.ran == ["ingest", "index"] and Deployment.objects.count() == 1


def test_missing_postings_are_made_before_the_web_server_starts(
    setup: Callable[[], str], activities: Activities, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup()
    active = Deployment.active()
    assert active is not None
    config = read_json(resolve(active.model.path) / "config.json")
    write_json(resolve(active.model.path) / "config.json", {**config, "model": {"lexical_weight": 0.1}})
    corpus, index, made = resolve(active.index.corpus.path), resolve(active.index.path), []

    def index_again(name: str, *arguments: str | Path) -> dict[str, Any]:
        made.append((name, *sorted(map(str, arguments))))
        postings_folder(corpus).mkdir()
        return {}

    monkeypatch.setattr(setting_up, "run_activity", index_again)
    assert "words" in setup() and setup() == ""
    [(name, *given)] = made
    assert name == "index"
    assert {f"--generation={index.name}", f"--output={index.parent}", f"--corpus={corpus}"} <= set(given)


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
    first, second, third = ModelVersion.objects.order_by("pk")
    weights = [(resolve(model.path) / "model.safetensors").read_text() for model in (first, second, third)]
    assert weights == ["one", "two", "three"]  # each is there still, to go back to
    confirmed = [entry.details["confirmed"] for entry in AuditEntry.objects.filter(action="deploy").order_by("pk")]
    assert confirmed[0] == [] and all("never measured" in says[-1] for says in confirmed[1:])
    back = deploying.roll_back(Deployment.objects.get(model=second), confirmed=True)
    assert setup() == "" and Deployment.active() == back


def test_a_newer_model_answers_from_the_corpus_and_the_index_that_answer(
    setup: Callable[[], str], tmp_path: Path
) -> None:
    setup()
    answering = IndexGeneration.objects.get()
    newer = another_corpus("vital-en", path=answering.corpus.path, source="default")
    another_index(answering.model, "of newer", corpus=newer, path=answering.path)
    another_index(answering.model, "another", path=answering.path)
    CorpusSnapshot.objects.filter(pk=answering.corpus_id).update(source="vital")
    write_model(tmp_path, "two", "block-one")
    said = setup()
    active = Deployment.active()
    assert active is not None and active.index == answering and active.model == ModelVersion.objects.latest("pk")
    assert "answers from now on" in said and "goes back to" in said and "default, not vital" in said
    assert "default, not vital" in setup()  # until it is taken over


def test_a_richer_default_is_named_only_where_the_default_corpus_answers(setup: Callable[[], str]) -> None:
    setup()
    answering = CorpusSnapshot.objects.get()
    another_corpus("vital-en", path=answering.path, source="vital")
    assert "has more" not in setup()
    CorpusSnapshot.objects.filter(pk=answering.pk).update(source="vital")
    assert "has more" in setup()
    CorpusSnapshot.objects.filter(pk=answering.pk).update(name="mine")
    assert setup() == ""


@pytest.mark.parametrize(("snapshot", "has_more"), [("snap", False), ("richer", True)])
def test_a_richer_default_corpus_is_named_with_the_newer_model(
    setup: Callable[[], str], tmp_path: Path, snapshot: str, has_more: bool
) -> None:
    setup()
    CorpusSnapshot.objects.update(source="default", snapshot_id="snap")
    write_model(tmp_path, "two", "block-one")
    vectors = tmp_path / "realm-mini" / SHIPPED
    vectors.mkdir()
    write_json(
        vectors / "manifest.json",
        {"format": INDEX_FORMAT, "snapshot_id": snapshot, "block_hash": "block-one", "shards": []},
    )
    said = setup()
    assert "answers from now on" in said and ("That of this version has more" in said) == has_more
    assert ("That of this version has more" in setup()) == has_more  # until it is taken over
    CorpusSnapshot.objects.create(snapshot_id="richer", name="vital-en", path="taken over", articles=1, blocks=1)
    assert setup() == ""


def test_a_newer_model_with_another_embedder_takes_edited_documents_along_or_waits(
    setup: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup()
    answering, asked = IndexGeneration.objects.get(), []

    def carry(earlier: IndexGeneration, index: IndexGeneration, *, by: str) -> None:
        asked.append((earlier, index, by))
        if len(asked) == 1:
            raise RealmError("The texts are gone.")

    monkeypatch.setattr(deploying.bringing, "edited_above", lambda *_: 3)
    monkeypatch.setattr(deploying.bringing, "carry", carry)
    write_model(tmp_path, "two", "block-two")
    assert "is newer, but is not deployed: The texts are gone." in setup()
    assert Deployment.objects.get().index == answering
    assert "answers from now on" in setup()
    active = Deployment.active()
    assert active is not None and asked[1] == (answering, active.index, "setup") and active.index != answering


def test_a_newer_model_that_cannot_answer_leaves_the_old_one(
    setup: Callable[[], str], activities: Activities, tmp_path: Path
) -> None:
    setup()
    before = Deployment.active()
    write_model(tmp_path, "two", "block-one")
    (tmp_path / "realm-mini" / "model.safetensors").write_text("damaged")
    assert "is newer, but is not deployed: The model cannot be used" in setup()
    assert Deployment.active() == before and Deployment.objects.count() == 1


def test_a_newer_model_does_not_take_the_place_of_another_corpus(
    setup: Callable[[], str], activities: Activities, tmp_path: Path
) -> None:
    setup()
    first = IndexGeneration.objects.get()
    folder = shutil.copytree(corpora_dir() / "vital-en" / "snap", corpora_dir() / "mine" / "snap")
    mine = another_corpus("mine", path=str(folder))
    theirs = Deployment.activate(another_index(first.model, "mine", corpus=mine, path=first.path))
    write_model(tmp_path, "two", "block-one")
    assert setup() == "" and Deployment.active() == theirs


def test_an_index_that_retention_removed_is_not_built_again(
    setup: Callable[[], str], activities: Activities, tmp_path: Path
) -> None:
    setup()
    first = IndexGeneration.objects.get()
    folder = shutil.copytree(indexes_dir() / first.generation, indexes_dir() / "theirs")
    other = another_model("theirs", block_hash="")
    (models_dir() / "theirs").mkdir()
    config = {"weights_sha256": "w", "block_hash": "", "model": {}}
    (models_dir() / "theirs" / "config.json").write_text(json.dumps(config))
    ModelVersion.objects.filter(pk=other.pk).update(model_hash=read_hashes(models_dir() / "theirs")[0])
    theirs = Deployment.activate(another_index(other, "theirs", path=str(folder)))
    shutil.rmtree(indexes_dir() / first.generation)
    IndexGeneration.objects.filter(pk=first.pk).update(removed_at=timezone.now())
    assert setup() == "" and activities.ran == ["ingest", "index"] and Deployment.active() == theirs


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
    Deployment.activate(another_index(first.model, "gone"))
    assert "files" in setup().lower()
    active = Deployment.active()
    assert active is not None and active.index.generation != "gone"


def test_an_administrator_that_is_there_is_left_alone(setup: Callable[[], str]) -> None:
    User.objects.create_superuser("root", password="p")
    assert "password" not in setup()
    assert User.objects.count() == 1


def test_no_log_says_the_first_password(setup: Callable[[], str]) -> None:
    said, path = setup(), first_password_path()
    password = path.read_text()
    assert f"Administrator account: user “admin”, password in {path} until the first login\n" in said
    assert password not in said and len(password) == 16 and User.objects.get().check_password(password)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    # Killed before there was an account, it takes what it has written, and writes nothing over it.
    User.objects.all().delete()
    setup()
    assert path.read_text() == password and User.objects.get().check_password(password)


def test_a_file_that_holds_no_password_is_told(setup: Callable[[], str]) -> None:
    first_password_path().write_text("short")
    with pytest.raises(CommandError, match="first_password should hold a password but does not"):
        setup()
    assert not User.objects.exists() and first_password_path().read_text() == "short"


@pytest.mark.parametrize("https", [False, True])
def test_on_a_terminal_the_first_password_is_shown(tmp_path: Path, activities: Any, settings: Any, https: bool) -> None:
    settings.HTTPS = https
    write_model(tmp_path, "one", "block-one")
    said = command("setup_data", "--model", str(tmp_path / "realm-mini"), "--show-password")
    admin, path = User.objects.get(), first_password_path()
    if https:  # whoever looks at a site for others may be seen
        assert admin.check_password(path.read_text()) and path.read_text() not in said
    else:
        assert admin.check_password(said.split("password “")[1].split("”")[0]) and not path.exists()


def test_the_first_password_goes_with_the_first_login(setup: Callable[[], str], client: Any) -> None:
    setup()
    path = first_password_path()
    User.objects.create_user("Memo", password="p", is_staff=True)
    client.post("/accounts/login/", {"username": "Memo", "password": "p"})
    client.post("/accounts/login/", {"username": "admin", "password": "wrong"})
    assert path.exists()
    client.post("/accounts/login/", {"username": "admin", "password": path.read_text()})
    assert not path.exists() and "admin" in client.get("/account/").content.decode()


def test_a_first_password_that_stays_stops_nobody(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    User.objects.create_superuser("root", password="p")
    first_password_path().mkdir()
    assert client.post("/accounts/login/", {"username": "root", "password": "p"}).status_code == 302
    assert "first_password holds a password and cannot be removed: Is a directory." in caplog.text
    first_password_path().rmdir()


def test_a_missing_model_is_told(activities: Activities, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is missing") as caught:
        command("setup_data", "--model", str(tmp_path / "nowhere"))
    assert caught.value.returncode == 2


def test_a_set_that_somebody_trains_on_is_left_out(setup: Callable[[], str], settings: Any) -> None:
    """A newer release brings another set to measure by; that must not keep the service from starting."""
    file = settings.MODELS_DIR / "questions" / "unanswerable-dev.jsonl"
    first = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
    questions.record(json.dumps({**first, "answers": ["Rex"]}).encode(), "mine", Purpose.LEARN)
    said = setup()
    assert "Not recorded: " in said and "is in mine" in said
    assert not QuestionSet.objects.filter(name="unanswerable-dev").exists() and Deployment.active() is not None
