"""The ledger for programs: over REST and on the command line, beside what the page computes."""

from __future__ import annotations

import sys
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.web.conftest import Person
from tests.web.operating import TokenClient, post, problem
from tests.web.pages import stored
from tests.web.pages.pages import text_of
from tests.web.pages.stored import ODYSSEY
from webapp.documents import service
from webapp.documents.inputs import DocumentInput, Text, Unreadable
from webapp.ledger import touched as touched_module
from webapp.ledger.touched import Touched
from webapp.models import CorpusChange, Deployment, Document, Purge

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


def test_touched_answers_are_filtered_by_outcome(program: TokenClient, asked: list[Any], staff: Person) -> None:
    sure = tuple(replace(one, offers={"Stanley Kubrick": 0.9}) if one is ODYSSEY[1] else one for one in ODYSSEY)
    same = stored.store(stored.payload(tuple(replace(one, prior=0.01) if one is sure[0] else one for one in sure)))
    assert program.delete("/api/v1/documents/films/2001").status_code == 204
    removed = CorpusChange.objects.get(kind="removed")
    address = f"/api/v1/document-changes/{removed.pk}/answers"
    every = program.get(address).json()
    outcomes = {"same": 1, "other_block": 0, "other_answer": 3, "no_answer": 0, "answer_given": 0}
    assert every["summary"] == {"answers": 4, "looked_at": 4, "outcomes": outcomes}
    differing = program.get(f"{address}?differing=true&page_size=2").json()
    assert differing["summary"] == every["summary"] and differing["previous"] is None
    rest = program.get(differing["next"]).json()
    assert rest["next"] is None
    listed = differing["results"] + rest["results"]
    assert listed == [row for row in every["results"] if row["outcome"] != "same"] and len(listed) == 3
    assert program.get(f"{address}?differing=false").json() == every
    problem(program.get(f"{address}?differing=perhaps"), 400)

    page = staff.client.get(f"/manage/documents/changes/{removed.pk}/").content.decode()
    assert f"/answers/{same.pk}/" in page and all(f"/answers/{one.pk}/" in page for one in asked)
    page = staff.client.get(f"/manage/documents/changes/{removed.pk}/?differing=true").content.decode()
    assert f"/answers/{same.pk}/" not in page and all(f"/answers/{one.pk}/" in page for one in asked)


def test_what_there_was_no_time_for_is_said(
    program: TokenClient, asked: list[Any], staff: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 100_000, 100))
    monkeypatch.setattr(touched_module, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    monkeypatch.setattr(touched_module, "_SLICE", 2)
    address = "/manage/documents/document/remove/?id=films%2F2001"
    page = text_of(staff.client.get(address))
    assert "3 kept answers have read it. Of the 2 that owe it most, 2 turn out differently" in page
    assert "For the other 1 there was no time yet. Go on with them" in page
    told = program.get("/api/v1/documents/films/2001/touched?differing=true").json()
    assert told["summary"]["looked_at"] == len(told["results"]) == 3, "the next request goes on"


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


@pytest.mark.parametrize("added_again", [False, True])
def test_what_was_purged_later_is_told_by_the_receipt(
    program: TokenClient, asked: list[Any], added_again: bool
) -> None:
    """No answer shows it any more, so their number is 0, also when a document of its id is added later."""
    assert program.delete("/api/v1/documents/films/2001").status_code == 204
    receipt = post(program, "purges", {"documents": ["films/2001"]}).json()
    assert receipt["answers"] == 3
    if added_again:
        assert post(program, "documents", FILM).status_code == 201
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
        monkeypatch.setattr(touched_module.cache, call, refuse)
        told = program.get(f"/api/v1/document-changes/{removed.pk}/answers")
        assert told.status_code == 200 and told.json()["summary"]["answers"] == 3


def test_no_id_is_the_end_of_an_address(deployed: Deployment) -> None:
    with pytest.raises(Unreadable, match="must not end with '/touched'"):
        service.add([DocumentInput(Text("A text."), "a/touched", "A title")], by=None)


def test_on_the_command_line(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    call_command("documents", "touched", "films/2001", stdout=out)
    first, second, *rows = out.getvalue().splitlines()
    assert (first, second) == ("3 kept answers have read this.", "Without it 3 would have another answer.")
    assert len(rows) == 3 and all("Stanley Kubrick → Arthur C. Clarke" in row for row in rows)

    stored.store(stored.payload(tuple(replace(one, prior=0.01) if one is ODYSSEY[0] else one for one in ODYSSEY)))
    out = StringIO()
    call_command("documents", "touched", "films/2001", "--differing", stdout=out)
    assert out.getvalue().splitlines()[1:] == [
        "Without it 3 would have another answer, 1 would stay the same.",
        *rows,
    ]

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _prompt: "n")
    out = StringIO()
    with pytest.raises(CommandError, match="Nothing was removed"):
        call_command("documents", "remove", "films/2001", stdout=out)
    assert out.getvalue().startswith("4 kept answers have read this.")
    assert Document.objects.get().status == "current"
    monkeypatch.setattr("builtins.input", lambda _prompt: "y")
    call_command("documents", "remove", "films/2001", stdout=out)
    change = CorpusChange.objects.get(kind="removed")

    out = StringIO()
    call_command("documents", "touched", "films/2001", stdout=out)
    where, had_read, *_ = out.getvalue().splitlines()
    assert (
        where
        == f"films/2001 was removed on {change.at:%Y-%m-%d}; in the ledger: /manage/documents/changes/{change.pk}/"
    )
    assert had_read == "4 kept answers had read this."
    out = StringIO()
    call_command("documents", "purge", "films/2001", stdout=out)
    assert out.getvalue().startswith("1 document purged: 1 block, 7 files, 4 kept answers.")
    receipt = Purge.objects.get().pk
    out = StringIO()
    call_command("documents", "touched", "films/2001", stdout=out)
    assert out.getvalue().endswith(f"Its passages were taken out of kept answers. The receipt is {receipt}.\n")


def test_one_kept_answer_on_the_command_line(deployed: Deployment, program: TokenClient) -> None:
    assert post(program, "documents", FILM).status_code == 201
    stored.store()
    out = StringIO()
    call_command("documents", "touched", "films/2001", stdout=out)
    assert out.getvalue().startswith("1 kept answer has read this.\nWithout it 1 would have another answer.")
    out = StringIO()
    call_command("documents", "purge", "films/2001", stdout=out)
    assert "1 kept answer.\n" in out.getvalue()
