"""Ingesting a file from the console: what lies in the folder of sources is there to be chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.web.conftest import Person
from webapp import queue
from webapp.models import Job

pytestmark = pytest.mark.django_db
FORM = "/manage/jobs/new/ingest/"


@pytest.fixture
def folder(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of sources; it is not there yet."""
    settings.REALM_DATA = tmp_path
    monkeypatch.setattr(queue, "_send", lambda *_: None)
    return tmp_path / "sources"


def test_where_no_file_lies_the_form_says_where_to_put_one(staff: Person, folder: Path) -> None:
    page = staff.client.get(FORM).content.decode()
    assert f"Nothing lies in {folder} yet." in page and "To ingest a file, put it there" in page
    folder.mkdir()
    assert f"Nothing lies in {folder} yet." in staff.client.get(FORM).content.decode()


def test_what_lies_there_can_be_chosen(staff: Person, folder: Path) -> None:
    folder.mkdir()
    (folder / "towns.jsonl").write_bytes(bytes(3 << 20))
    page = staff.client.get(FORM).content.decode()
    assert '<option value="towns.jsonl">towns.jsonl (3.0\xa0MB)</option>' in page and "Nothing lies in" not in page
    chosen = {"source": "jsonl", "file": "towns.jsonl", "language": "en"}
    assert staff.client.post(FORM, chosen).status_code == 302
    job = Job.objects.get()
    assert job.parameters["file"] == "towns.jsonl"
    assert 'value="towns.jsonl" selected' in staff.client.get(f"{FORM}?from={job.pk}").content.decode()
    (folder / "towns.jsonl").unlink()
    response = staff.client.post(FORM, {**chosen, "corpus_name": "again"})
    assert response.status_code == 422 and b"It is not there any more; choose another." in response.content
