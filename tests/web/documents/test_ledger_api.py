"""The ledger for programs: over REST and on the command line, beside what the page computes."""

from __future__ import annotations

import sys
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.web.operating import TokenClient, post, problem
from tests.web.pages import stored
from tests.web.pages.stored import ODYSSEY
from webapp.documents import service
from webapp.documents.inputs import DocumentInput, Text, Unreadable
from webapp.ledger import service as ledger
from webapp.ledger.touched import Touched
from webapp.models import CorpusChange, Deployment, Document

FILM = {"id": "films/2001", "title": ODYSSEY[0].title, "text": ODYSSEY[0].text}


@pytest.fixture
def asked(deployed: Deployment, program: TokenClient) -> list[Any]:
    """Three answers that were read from the film's document, whose id has a slash."""
    assert post(program, "documents", FILM).status_code == 201
    return [stored.store() for _ in range(3)]


def test_what_a_document_touches(program: TokenClient, asked: list[Any]) -> None:
    told = program.get("/api/v1/documents/films/2001/touched?page_size=2").json()
    outcomes = {"same": 0, "other_block": 0, "other_answer": 3, "no_answer": 0, "answer_given": 0}
    assert told["summary"] == {"answers": 3, "looked_at": 3, "outcomes": outcomes}
    assert len(told["results"]) == 2 and told["previous"] is None
    rest = program.get(told["next"]).json()
    assert rest["next"] is None and rest["summary"] == told["summary"]
    rows = told["results"] + rest["results"]
    assert {row["answer"] for row in rows} == {str(one.pk) for one in asked}
    touched = Touched([ODYSSEY[0].block_id])
    (one, *_) = touched.recomputed(touched.rows)
    row = next(row for row in rows if row["answer"] == str(one.asked.pk))
    assert one.without.answer is not None
    assert row == {
        "answer": str(one.asked.pk),
        "question": one.asked.question,
        "text": "Stanley Kubrick",
        "posterior": one.posterior,
        "outcome": "other_answer",
        "without": {
            "text": "Arthur C. Clarke",
            "probability": one.without.answer.probability,
            "explained_by": one.without.evidence[0].block_id,
        },
        "asked_again": None,
    }
    problem(program.get("/api/v1/documents/films/2002/touched"), 404)
    for wrong in ("cursor=bz0x!", "page_size=0", "order=posterior"):
        problem(program.get(f"/api/v1/documents/films/2001/touched?{wrong}"), 400)


def test_changes_and_what_they_touched(program: TokenClient, asked: list[Any]) -> None:
    assert program.delete("/api/v1/documents/films/2001").status_code == 204
    page = program.get("/api/v1/document-changes").json()
    removed, added = page["results"]
    assert (removed["kind"], added["kind"], removed["document"]) == ("removed", "added", "films/2001")
    assert (removed["blocks_gone"], removed["blocks_new"], removed["by"]) == (1, 0, "Stella")
    assert [one["id"] for one in program.get("/api/v1/document-changes?kind=added").json()["results"]] == [added["id"]]
    named = program.get("/api/v1/document-changes?document_id=films/2001&page_size=1").json()
    assert named["results"] == [removed] and program.get(named["next"]).json()["results"] == [added]
    assert program.get("/api/v1/document-changes?document_id=other").json()["results"] == []
    told = program.get(f"/api/v1/document-changes/{removed['id']}/answers").json()
    assert told["summary"]["answers"] == 3 and {row["outcome"] for row in told["results"]} == {"other_answer"}
    assert told["purge"] is None
    nothing = program.get(f"/api/v1/document-changes/{added['id']}/answers").json()
    assert nothing["summary"]["answers"] == 0 and nothing["results"] == []
    problem(program.get("/api/v1/document-changes/999999/answers"), 404)
    problem(program.get("/api/v1/document-changes?kind=lost"), 400)


def test_what_was_purged_later_is_told_by_the_receipt(program: TokenClient, asked: list[Any]) -> None:
    """None of the answers shows it any more, so their number is 0."""
    assert program.delete("/api/v1/documents/films/2001").status_code == 204
    receipt = post(program, "purges", {"documents": ["films/2001"]}).json()
    assert receipt["answers"] == 3
    for change in program.get("/api/v1/document-changes").json()["results"]:
        told = program.get(f"/api/v1/document-changes/{change['id']}/answers").json()
        assert told["summary"]["answers"] == 0
        assert told["purge"] == (None if change["kind"] == "added" else receipt["id"])


def test_the_ledger_is_read_where_the_cache_is_out_of_reach(
    program: TokenClient, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise RedisConnectionError("nobody listens")

    assert program.delete("/api/v1/documents/films/2001").status_code == 204
    removed = CorpusChange.objects.get(kind="removed")
    for call in ("set", "get"):
        monkeypatch.setattr(ledger.cache, call, refuse)
        told = program.get(f"/api/v1/document-changes/{removed.pk}/answers")
        assert told.status_code == 200 and told.json()["summary"]["answers"] == 3


def test_no_id_is_the_end_of_an_address(deployed: Deployment) -> None:
    with pytest.raises(Unreadable, match="must not end with '/touched'"):
        service.add([DocumentInput(Text("A text."), "a/touched", "A title")], by=None)


def test_on_the_command_line(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    call_command("documents", "touched", "films/2001", stdout=out)
    first, second, *rows = out.getvalue().splitlines()
    assert (first, second) == ("3 kept answers have read this.", "Without it: 3 another answer.")
    assert len(rows) == 3 and all("Stanley Kubrick → Arthur C. Clarke" in row for row in rows)

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _prompt: "n")
    out = StringIO()
    with pytest.raises(CommandError, match="Nothing was removed"):
        call_command("documents", "remove", "films/2001", stdout=out)
    assert out.getvalue().startswith("3 kept answers have read this.")
    assert Document.objects.get().status == "current"
    monkeypatch.setattr("builtins.input", lambda _prompt: "y")
    call_command("documents", "remove", "films/2001", stdout=out)
    assert CorpusChange.objects.filter(kind="removed").exists()
