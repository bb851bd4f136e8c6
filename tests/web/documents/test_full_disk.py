"""A full disk during an edit: nothing of it is half in, and it is said to be the server's fault."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from django.test import Client

import realm_core.living.writing
from tests.web.conftest import Person
from tests.web.operating import TokenClient, post, problem
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.models import CorpusChange, CorpusState, Deployment

Fills = Callable[[pytest.MonkeyPatch], None]


def full(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def before_the_upload(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Path, "write_bytes", full)


def within_the_segment(patch: pytest.MonkeyPatch) -> None:
    """Its texts are written, its vectors are not."""
    patch.setattr(realm_core.living.writing, "write_vectors", full)


@pytest.mark.parametrize("fills", [before_the_upload, within_the_segment])
def test_an_edit_on_a_full_disk(
    deployed: Deployment,
    program: TokenClient,
    staff: Person,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    fills: Fills,
) -> None:
    documents.add([DocumentInput(Text("Turku is old."), "turku", "Turku")], by=None)
    segments = next(tmp_path.glob("**/segments"))
    before = {path.name for path in segments.glob("[!.]*")}

    new = {"title": "Turku", "text": "Turku is new."}
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.ERROR):
        fills(patch)
        refused = program.put("/api/v1/documents/turku", new, content_type="application/json")
        page = staff.client.post("/manage/documents/add/", {**new, "licence": "CC0 1.0"})
    told = "The server cannot store this: its disk is full or takes no files. Its log names the place."
    assert problem(refused, 507)["detail"] == told
    assert page.status_code == 507 and b"is full; free some space" in page.content
    assert "The disk that holds /" in caplog.text

    assert {path.name for path in segments.glob("[!.]*")} == before
    assert CorpusChange.objects.count() == 1 and CorpusState.objects.filter(has_edits=True).count() == 1
    assert Client().get("/api/v1/documents/turku").json()["text"] == "Turku is old."
    assert post(program, "documents", {"title": "Oulu", "text": "There is room."}).status_code == 201
    assert [path.name for path in segments.glob(".*.partial")] == []
