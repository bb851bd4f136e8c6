"""Backup and restore: permanent links show the same afterwards, and life goes on."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.test import Client
from django.utils import timezone

import webapp.serving.engine
import webapp.serving.living
from realm_core.errors import RealmError
from tests.core.documents.pdfs import column, pdf
from tests.migrated import migrated
from tests.tiny import tiny_deployment
from tests.web.asked import ask
from tests.web.command_line import command
from tests.web.operating import evaluation, job, question_set
from tests.web.pages import stored
from webapp.artefacts.registering import record_corpus, record_index, record_model
from webapp.deployments.service import check, deploy
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, File, Text
from webapp.models import AskedAnswer, AuditEntry, Deployment, Feedback, IndexGeneration, Job, JobMetric
from webapp.operations import backups
from webapp.serving.engine import holder
from webapp.sources import service as sources
from webapp.storage.places import keep_files, lock_for_removal

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of its own."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setattr(settings, "REALM_DATA", folder)
    return folder


@pytest.fixture
def index(data: Path) -> IndexGeneration:
    """A model, an index and a corpus, with all their files in the data folder."""
    model, index, corpus = tiny_deployment(data / "tiny")
    record_corpus(corpus)
    return record_index(index, model=record_model(model))


def test_edited_documents_are_restored_with_their_texts_and_pdfs(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webapp.serving.engine, "_holder", None)
    model, built, corpus = tiny_deployment(tmp_path / "elsewhere")
    record_corpus(corpus)
    deploy(record_index(built, model=record_model(model)), by=None)
    holder().refresh(wait=True)
    report = pdf([column(["The castle of Turku was founded in 1280."])], title="Castles")
    documents.add([DocumentInput(Text("Oulu is a city by the sea."), "oulu", "Oulu")], by=None)
    documents.change("oulu", DocumentInput(Text("Oulu is a city in the north."), "oulu", "Oulu"), by=None)
    documents.add([DocumentInput(File(report, "castles.pdf"), "castles")], by=None)
    holder().close()
    command("backup", str(tmp_path / "backup.tar"))
    empty(data)
    command("restore", str(tmp_path / "backup.tar"))

    webapp.serving.living._views.clear()
    webapp.serving.living._shared_store.cache_clear()
    monkeypatch.setattr(webapp.serving.engine, "_holder", None)
    holder().refresh(wait=True)
    texts = {block["title"]: block["text"] for block in ask("Where is Oulu?", k=20).payload["evidence"]}
    assert texts["Oulu"] == "Oulu is a city in the north." and "1280" in texts["Castles"]
    opened = Client().get("/documents/original/", {"id": "castles"})
    assert opened.content == report
    holder().close()


def test_everything_is_as_it_was(data: Path, index: IndexGeneration, tmp_path: Path) -> None:
    person = User.objects.create_user("Stella", password="p", is_staff=True)
    deploy(index, by=person)
    asked = stored.store(asker=person)
    Feedback.objects.create(answer=asked, by=person, right=True)
    ended = job(state="succeeded")
    part = job(parent=ended, settings_of=ended)
    JobMetric.objects.create(job=ended, step=1, time=timezone.now(), values={"loss": 0.5})
    measured = evaluation(index, question_set(), predictions=f"runs/{ended.pk}/predictions.jsonl")
    for path in (measured.predictions, measured.questions.path, f"runs/{ended.pk}/log.txt", "secret_key"):
        (data / path).parent.mkdir(parents=True, exist_ok=True)
        (data / path).write_text(path)
    (data / "secret_key").chmod(0o600)
    browser = Client()
    browser.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    before = shown(browser, asked)
    files = contents(data)

    backup = tmp_path / "backup.tar"
    command("backup", str(backup))
    assert backup.stat().st_mode & 0o077 == 0
    assert AuditEntry.objects.get(action="backup").target == "backup.tar"
    empty(data)
    command("restore", str(backup))

    assert shown(browser, asked) == before  # the session holds, too
    named = ("tiny/model", "tiny/indexes", "tiny/corpora", "questions/", "secret_key", measured.predictions)
    kept = {name: content for name, content in files.items() if name.startswith(named) and ".lock" not in name}
    assert contents(data) == kept
    assert (data / "secret_key").stat().st_mode & 0o777 == 0o600
    part = Job.objects.get(pk=part.pk)
    assert part.parent == part.settings_of == ended
    assert JobMetric.objects.get().values == {"loss": 0.5} and Feedback.objects.get().by == person
    assert [entry.action for entry in AuditEntry.objects.all()] == ["restore", "login", "deploy"]
    active = Deployment.active()
    assert active is not None
    assert check(active.index).refusal == "" and list(data.glob(".*")) == []  # the files are whole
    assert Deployment.activate(active.index).pk > active.pk  # ids go on where they were


def test_files_to_ingest_are_restored_unless_they_are_left_out(data: Path, tmp_path: Path) -> None:
    towns = sources.add("towns.jsonl", [b"a" * 70_000], by=None)
    (data / "sources" / ".half.part").write_text("an upload that is under way")
    said = command("backup", str(tmp_path / "backup.tar"))
    assert "1 file to ingest, 70,000 bytes, in the backup" in said
    slim = command("backup", str(tmp_path / "slim.tar"), "--without-sources")
    assert f"the files to ingest, in {data / 'sources'}" in slim
    assert (tmp_path / "slim.tar").stat().st_size < 70_000 < (tmp_path / "backup.tar").stat().st_size
    empty(data)
    command("restore", str(tmp_path / "backup.tar"))
    assert sources.sources() == [towns] and list(contents(data / "sources")) == ["towns.jsonl"]


def test_a_file_to_ingest_is_not_removed_while_it_is_backed_up(data: Path) -> None:
    sources.add("towns.jsonl", [b"{}"], by=None)
    with keep_files(), pytest.raises(RealmError, match="A backup is being written"):
        sources.remove("towns.jsonl", by=None)
    sources.remove("towns.jsonl", by=None)
    assert sources.sources() == []


def test_artefacts_outside_the_data_folder_are_named(data: Path, tmp_path: Path) -> None:
    model, index, corpus = tiny_deployment(tmp_path / "elsewhere")
    record_corpus(corpus)
    record_index(index, model=record_model(model))
    said = command("backup", str(tmp_path / "backup.tar"))
    assert all(str(folder.resolve()) in said for folder in (model, index, corpus))


def test_nothing_is_restored_over_something(data: Path, index: IndexGeneration, tmp_path: Path) -> None:
    command("backup", str(tmp_path / "backup.tar"))
    with pytest.raises(CommandError, match="not empty"):
        command("restore", str(tmp_path / "backup.tar"))


@pytest.mark.nightly
def test_a_process_that_has_not_asked_the_database_yet_makes_a_backup(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    migrated(tmp_path / "data" / "db.sqlite3")
    address = {"REALM_DATA": str(tmp_path / "data"), "DATABASE_URL": ""}
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "backup", str(tmp_path / "backup.tar")]
    subprocess.run(command, env={**os.environ, **address}, check=True, capture_output=True)
    assert tarfile.is_tarfile(tmp_path / "backup.tar")


def test_what_lies_there_damaged_is_moved_aside(data: Path, index: IndexGeneration, tmp_path: Path) -> None:
    backup = tmp_path / "backup.tar"
    command("backup", str(backup))
    command("flush", interactive=False, verbosity=0)
    weights = data / index.model.path / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + b"x")
    (data / index.path / "of-later").write_text("more than the backup has is no damage")
    said = command("restore", str(backup))
    assert weights.read_bytes() == whole and (data / index.path / "of-later").exists()
    aside = data / "before-restore" / "1" / index.model.path
    assert (aside / "model.safetensors").read_bytes()[-1:] == b"x" and str(aside) in said
    assert [path.name for path in (data / "before-restore" / "1").iterdir()] == [index.model.path.split("/")[0]]


def test_a_backup_waits_for_a_removal_that_is_under_way(data: Path, index: IndexGeneration, tmp_path: Path) -> None:
    begun, ended = Event(), Event()

    def remove() -> None:
        with lock_for_removal():
            begun.set()
            time.sleep(0.5)
            ended.set()

    removal = Thread(target=remove)
    removal.start()
    assert begun.wait(10)
    backups.back_up(tmp_path / "backup.tar")
    assert ended.is_set()
    removal.join()


def test_a_backup_that_cannot_be_made_leaves_nothing(data: Path, index: IndexGeneration, tmp_path: Path) -> None:
    shutil.rmtree(data / index.path)
    with pytest.raises(CommandError, match="does not exist"):
        command("backup", str(tmp_path / "backup.tar"))
    with pytest.raises(CommandError, match="cannot be written"):
        command("backup", str(tmp_path / "nowhere" / "backup.tar"))
    assert list(tmp_path.glob("*backup*")) == [] and list(data.glob(".*")) == []


def test_what_a_killed_backup_leaves_is_removed_and_never_one_under_way(
    data: Path, index: IndexGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".backup-ab12/records.jsonl", ".restore-ab12/data/secret_key", ".backup-b.tar.12.tmp", "kept.tar"):
        (data / name).parent.mkdir(exist_ok=True, parents=True)
        (data / name).write_text("people's questions")
    write, meanwhile = backups._write_records, list[str]()

    def look(target: Path) -> None:
        write(target)
        with pytest.raises(RealmError, match="A backup is being written"):
            backups.clear_away()
        meanwhile.extend(path.name for path in data.iterdir())

    monkeypatch.setattr(backups, "_write_records", look)
    command("backup", str(data / "now.tar"))
    own = {name for name in meanwhile if name.startswith(".backup-")} - {".backup-ab12", ".backup-b.tar.12.tmp"}
    assert len(own) == 2, "the folder of the records and the file, which are cleared away if it is killed"
    assert backups.clear_away() == [".backup-ab12", ".backup-b.tar.12.tmp", ".restore-ab12"]
    assert not list(data.glob(".backup-*")) and not list(data.glob(".restore-*")) and (data / "kept.tar").exists()
    assert backups.clear_away() == [] and (data / "now.tar").exists()


@pytest.mark.parametrize("name", ["records.jsonl", "vectors-00000.safetensors"])
def test_a_file_of_which_one_bit_has_changed_is_named_and_nothing_restored(
    data: Path, index: IndexGeneration, tmp_path: Path, name: str
) -> None:
    backup = tmp_path / "backup.tar"
    command("backup", str(backup))
    with tarfile.open(backup) as archive:
        (member,) = [one for one in archive if one.name.endswith(name)]
    with open(backup, "r+b") as file:
        file.seek(member.offset_data + member.size // 2)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    empty(data)
    with pytest.raises(CommandError, match=f"{name} is damaged, its checksum is another one"):
        command("restore", str(backup))
    assert not IndexGeneration.objects.exists() and contents(data) == {}


def test_a_backup_of_a_version_without_checksums_is_restored(
    data: Path, index: IndexGeneration, tmp_path: Path
) -> None:
    command("backup", str(tmp_path / "backup.tar"))
    with tarfile.open(tmp_path / "backup.tar") as new, tarfile.open(tmp_path / "earlier.tar", "w") as earlier:
        for member in new:
            content = new.extractfile(member)
            if member.name == "about.json":
                assert content is not None
                told = json.dumps({**json.load(content), "checksums": False}).encode()
                member.size, content = len(told), io.BytesIO(told)
            if member.name != "checksums.json":
                earlier.addfile(member, content)
    empty(data)
    command("restore", str(tmp_path / "earlier.tar"))
    assert IndexGeneration.objects.get().generation == index.generation


def test_checksums_that_are_none_are_refused_in_a_sentence(data: Path, index: IndexGeneration, tmp_path: Path) -> None:
    command("backup", str(tmp_path / "backup.tar"))
    with tarfile.open(tmp_path / "backup.tar") as whole, tarfile.open(tmp_path / "other.tar", "w") as other:
        for member in whole:
            content = whole.extractfile(member)
            if member.name == "checksums.json":
                member.size, content = 2, io.BytesIO(b"[]")
            other.addfile(member, content)
    empty(data)
    with pytest.raises(CommandError, match="cannot be restored"):
        command("restore", str(tmp_path / "other.tar"))


def test_a_file_that_is_no_backup_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "text.tar").write_text("nothing")
    with tarfile.open(tmp_path / "other.tar", "w") as archive:
        archive.add(tmp_path / "text.tar", "about.json")
    for name in ("text.tar", "other.tar", "absent.tar"):
        with pytest.raises(CommandError, match="cannot be restored"):
            command("restore", str(tmp_path / name))


def test_a_backup_of_another_version(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command("backup", str(tmp_path / "backup.tar"))
    own = backups._migrations()
    monkeypatch.setattr("webapp.operations.backups._migrations", lambda: own[:-1])
    with pytest.raises(CommandError, match="newer version"):
        command("restore", str(tmp_path / "backup.tar"))
    monkeypatch.setattr("webapp.operations.backups._migrations", lambda: [*own, "9998_next", "9999_last"])
    with pytest.raises(CommandError, match=r"before 9998_next\..* -- webapp/migrations/9998_next\.py\)~1$"):
        command("restore", str(tmp_path / "backup.tar"))


def shown(browser: Client, asked: AskedAnswer) -> dict[str, Any]:
    """What people see of an answer, and what operators see."""
    return {
        "api": browser.get(f"/api/v1/answers/{asked.pk}").json(),
        "page": browser.get(f"/answers/{asked.pk}/").content.decode().split("csrf")[0],
        "history": asked.question in browser.get("/history/").content.decode(),
        "jobs": browser.get("/api/v1/jobs").json(),
        "models": browser.get("/api/v1/models").json(),
        "deployments": browser.get("/api/v1/deployments").json(),
        "audit": AuditEntry.objects.get(action="deploy").at,
    }


def empty(data: Path) -> None:
    """Lose all records and files."""
    command("flush", interactive=False, verbosity=0)
    shutil.rmtree(data)
    data.mkdir()


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, but for the lock on it."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "files.lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
