"""Ingesting a file from the console: what lies in the folder of sources is there to be chosen, sent and removed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from realm_core.errors import RealmError
from tests.web.conftest import Person
from tests.web.console import another_corpus
from tests.web.operating import TokenClient, post, problem
from webapp.models import AuditEntry, Job, JobKind, JobState, Schedule, Trigger
from webapp.sources import service as sources
from webapp.sources import views

pytestmark = pytest.mark.django_db
FORM = "/manage/jobs/new/ingest/"
FILES = "/manage/corpora/files/"
TOWN = b'{"id": "1", "title": "Town", "text": "Town is a town."}\n'


@pytest.fixture
def folder(settings: Any, tmp_path: Path, no_workers: None) -> Path:
    """The folder of sources; it is not there yet."""
    settings.REALM_DATA = tmp_path
    return tmp_path / "sources"


def test_where_no_file_lies_the_form_says_where_to_put_one(staff: Person, folder: Path) -> None:
    page = staff.client.get(FORM).content.decode()
    assert f"Nothing lies in {folder} yet." in page and "To ingest a file, add it under Corpora" in page
    folder.mkdir()
    assert f"Nothing lies in {folder} yet." in staff.client.get(FORM).content.decode()


def test_what_lies_there_can_be_chosen(staff: Person, folder: Path) -> None:
    folder.mkdir()
    (folder / "towns.jsonl").write_bytes(bytes(3 << 20))
    page = staff.client.get(FORM).content.decode()
    assert '<option value="towns.jsonl">towns.jsonl (3.0\xa0MB)</option>' in page and "Nothing lies in" not in page
    chosen = {"source": "jsonl", "file": "towns.jsonl", "language": "en", "articles_at_most": "0"}
    assert staff.client.post(FORM, chosen).status_code == 302
    job = Job.objects.get()
    assert job.parameters["file"] == "towns.jsonl"
    assert 'value="towns.jsonl" selected' in staff.client.get(f"{FORM}?from={job.pk}").content.decode()
    (folder / "towns.jsonl").unlink()
    response = staff.client.post(FORM, {**chosen, "corpus_name": "again"})
    assert response.status_code == 422 and b"It is not there any more; choose another." in response.content


def sent(name: str, content: bytes = TOWN) -> dict[str, Any]:
    return {"file": SimpleUploadedFile(name, content)}


def replacing(name: str, content: bytes = TOWN) -> dict[str, Any]:
    return {**sent(name, content), "replace": "on"}


def test_a_file_can_be_sent_ingested_and_removed(staff: Person, folder: Path) -> None:
    assert "There is no file yet." in staff.client.get(FILES).content.decode()
    page = staff.client.post(FILES, sent("towns.jsonl"), follow=True).content.decode()
    assert "towns.jsonl was uploaded and can be ingested." in page
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("towns.jsonl", TOWN)]
    form = staff.client.get(f"{FORM}?source=jsonl&file=towns.jsonl").content.decode()
    assert f"{FORM}?source=jsonl&amp;file=towns.jsonl" in page
    assert 'value="towns.jsonl" selected' in form and 'value="jsonl" selected' in form

    chosen = {"source": "jsonl", "file": "towns.jsonl", "language": "en", "articles_at_most": "0"}
    assert staff.client.post(FORM, chosen).status_code == 302
    job = Job.objects.get()
    assert "being ingested" in staff.client.get(FILES).content.decode()
    refused = staff.client.post(f"{FILES}remove/", {"name": "towns.jsonl"}, follow=True).content.decode()
    assert "towns.jsonl is being ingested" in refused and (folder / "towns.jsonl").exists()
    Job.objects.update(state=JobState.INTERRUPTED)  # it will go on by itself
    assert sources.readers() == {"towns.jsonl": job}
    Job.objects.update(state=JobState.SUCCEEDED)
    page = staff.client.post(f"{FILES}remove/", {"name": "towns.jsonl"}, follow=True).content.decode()
    assert "towns.jsonl has been removed." in page and not list(folder.iterdir())
    actions = AuditEntry.objects.filter(action__startswith="source.").order_by("pk")
    assert [(one.action, one.target, one.details) for one in actions] == [
        ("source.add", "towns.jsonl", {"bytes": len(TOWN)}),
        ("source.remove", "towns.jsonl", {"bytes": len(TOWN)}),
    ]


def test_a_file_that_a_schedule_reads_again_stays(staff: Person, folder: Path, program: TokenClient) -> None:
    staff.client.post(FILES, sent("towns.jsonl"))
    ingest = Job.objects.create(kind=JobKind.INGEST, state=JobState.SUCCEEDED, parameters={"file": "towns.jsonl"})
    another_corpus("towns", job=ingest)
    schedule = Schedule.objects.create(corpus_name="towns", trigger=Trigger.EVERY, hours=24, ingest=True)
    page = staff.client.get(FILES).content.decode()
    assert f'<a href="/manage/schedules/{schedule.pk}/">read again every 24 h</a>' in page
    assert f"{FILES}remove/" not in page
    refused = staff.client.post(f"{FILES}remove/", {"name": "towns.jsonl"}, follow=True).content.decode()
    assert "is read again by a schedule (Index of towns, every 24 h)" in refused and (folder / "towns.jsonl").exists()
    assert "by a schedule" in problem(program.delete("/api/v1/source-files/towns.jsonl"), 422)["detail"]
    Schedule.objects.update(enabled=False)  # it may be run by hand, and switched on again
    assert '<span class="tag">off</span>' in staff.client.get(FILES).content.decode()
    Schedule.objects.update(ingest=False)
    assert program.delete("/api/v1/source-files/towns.jsonl").status_code == 204


def test_a_file_is_replaced_by_one_of_its_name_if_that_is_ticked(staff: Person, folder: Path) -> None:
    staff.client.post(FILES, sent("towns.jsonl"))
    assert "replaces it" in staff.client.post(FILES, sent("towns.jsonl", b"newer")).content.decode()
    chosen = {"source": "jsonl", "file": "towns.jsonl", "language": "en", "articles_at_most": "0"}
    staff.client.post(FORM, chosen)
    assert (
        "towns.jsonl is being ingested" in staff.client.post(FILES, replacing("towns.jsonl", b"newer")).content.decode()
    )
    assert [path.read_bytes() for path in folder.iterdir()] == [TOWN]
    Job.objects.update(state=JobState.SUCCEEDED)
    page = staff.client.post(FILES, replacing("towns.jsonl", b"newer"), follow=True).content.decode()
    assert "towns.jsonl was uploaded" in page and [path.read_bytes() for path in folder.iterdir()] == [b"newer"]
    staff.client.post(FILES, replacing("other.jsonl"))  # which replaces none
    assert list(AuditEntry.objects.filter(action="source.add").order_by("pk").values_list("details", flat=True)) == [
        {"bytes": len(TOWN)},
        {"bytes": 5, "replaced": True},
        {"bytes": len(TOWN)},
    ]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.jsonl", "jsonl"),
        ("a.jsonl.gz", "jsonl"),
        ("a.parquet", "parquet"),
        ("frwiki.xml.bz2", "mediawiki"),
        ("a", "jsonl"),
    ],
)
def test_what_a_file_is_by_its_name(name: str, source: str) -> None:
    assert sources.SourceFile(name, 1).source == source


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({}, "This field is required."),
        (sent(".hidden"), "cannot be the name of a file to ingest"),
        (sent("Zürich.jsonl"), "cannot be the name of a file to ingest"),
        (sent("there.jsonl"), "there.jsonl exists already"),
        (sent("empty.jsonl", b""), "The submitted file is empty."),
        (sent("large.jsonl", bytes(11)), "A file may have at most 0 MB"),
    ],
)
def test_what_cannot_be_sent(
    form: dict[str, Any], says: str, staff: Person, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    (folder / "there.jsonl").write_bytes(b"before")
    if "large" in says or "at most" in says:
        monkeypatch.setattr(views._FILE, "largest_bytes", 10)
    response = staff.client.post(FILES, form)
    assert response.status_code == 422 and says in response.content.decode()
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("there.jsonl", b"before")]
    assert not AuditEntry.objects.filter(action="source.add").exists()


@pytest.mark.parametrize("name", ["../secret_key", "", "nothing.jsonl", "sources"])
def test_a_file_outside_the_folder_of_sources_is_not_removed(name: str, staff: Person, folder: Path) -> None:
    folder.mkdir()
    (folder.parent / "secret_key").write_text("s")
    page = staff.client.post(f"{FILES}remove/", {"name": name}, follow=True).content.decode()
    assert "There is no file" in page and (folder.parent / "secret_key").exists()


def test_what_breaks_off_leaves_nothing(folder: Path, db: None) -> None:
    def pieces() -> Iterator[bytes]:
        yield TOWN
        raise OSError(28, "No space left on device")

    with pytest.raises(RealmError, match=r"The disk that holds .*towns\.jsonl is full"):
        sources.add("towns.jsonl", pieces(), by=None)
    with pytest.raises(RealmError, match=r"towns\.jsonl is empty\."):
        sources.add("towns.jsonl", [], by=None)
    assert not list(folder.iterdir()) and not sources.sources()


def test_what_a_killed_process_left_is_cleared_away(folder: Path, db: None) -> None:
    folder.mkdir()
    for name, age_s in ((".old.part", 90_000), (".new.part", 60)):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (time.time() - age_s,) * 2)
    sources.add("towns.jsonl", [TOWN], by=None)
    assert sorted(path.name for path in folder.iterdir()) == [".new.part", "towns.jsonl"]
    assert [one.name for one in sources.sources()] == ["towns.jsonl"]


def test_a_file_is_sent_replaced_and_removed_over_rest(folder: Path, program: TokenClient) -> None:
    assert program.get("/api/v1/source-files").json() == []
    early = {"kind": "ingest", "parameters": {"source": "jsonl", "file": "towns 1.jsonl"}}
    (wrong,) = problem(post(program, "jobs", early), 400)["errors"]
    assert wrong["field"] == "parameters.file" and "there is no 'towns 1.jsonl'; send it first" in wrong["detail"]
    made = program.post("/api/v1/source-files", sent("towns 1.jsonl", TOWN * 40_000))  # more than other bodies may have
    assert (made.status_code, made.json()) == (201, {"name": "towns 1.jsonl", "size_bytes": len(TOWN) * 40_000})
    assert program.get("/api/v1/source-files").json() == [made.json()]
    assert "exists already" in problem(program.post("/api/v1/source-files", sent("towns 1.jsonl")), 422)["detail"]
    again = program.post("/api/v1/source-files", {**sent("towns 1.jsonl"), "replace": "true"})
    assert again.status_code == 201 and (folder / "towns 1.jsonl").read_bytes() == TOWN
    assert [entry.name for entry in AuditEntry.objects.filter(action="source.add")] == ["Stella", "Stella"]

    problem(program.post("/api/v1/source-files", sent(".hidden")), 422)
    assert problem(program.post("/api/v1/source-files", {}), 400)["errors"][0]["field"] == "file"
    parameters = {"source": "jsonl", "file": "towns 1.jsonl"}
    assert post(program, "jobs", {"kind": "ingest", "parameters": parameters}).status_code == 201
    assert "being ingested" in problem(program.delete("/api/v1/source-files/towns%201.jsonl"), 422)["detail"]
    Job.objects.update(state=JobState.FAILED)
    assert program.delete("/api/v1/source-files/towns%201.jsonl").status_code == 204
    problem(program.delete("/api/v1/source-files/towns%201.jsonl"), 404)
    assert program.get("/api/v1/source-files").json() == []
