"""What docs/clients.md and docs/operations.md show is what a running server does: their commands and programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import TOP, Running


def blocks(page: str, language: str) -> list[str]:
    """The pieces of code in a language."""
    text = (TOP / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def names_of(running: Running) -> dict[str, str]:
    """What the page has its reader export."""
    return {"REALM": running.address, "REALM_TOKEN": running.asker, "REALM_ADMIN_TOKEN": running.admin}


def output_of(shown: list[str], running: Running, folder: Path) -> list[list[str]]:
    """Lines of what each piece of a page prints, run one after another."""
    # Every curl fails where the server refuses; a mark between the pieces tells their outputs apart.
    script = 'set -euo pipefail\ncurl() { command curl --fail-with-body "$@"; echo; }\n' + "\necho '§'\n".join(shown)
    surroundings = {**os.environ, **names_of(running)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=surroundings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [[line for line in piece.splitlines() if line.strip()] for piece in done.stdout.split("§")]


def test_commands(running: Running, tmp_path: Path) -> None:
    asked, kept, taken, many, rest, operated, *edited = output_of(blocks("clients.md", "sh"), running, tmp_path)
    answer = json.loads(asked[0])
    assert kept == ["304"] and json.loads((tmp_path / "kept.json").read_text()) == answer
    without, block, article = map(json.loads, taken)
    assert without["without"] == [block["block_id"]] == [answer["evidence"][0]["block_id"]]
    assert block["text"] in article["text"]
    results, *lines = map(json.loads, many)
    assert [len(result["answer"]["evidence"]) for result in results["results"]] == [5, 3]
    assert [line["answer"]["question"] for line in lines] == ["What is tungsten?", "Who was Marie Curie?"]
    found, said, why, own = map(json.loads, rest)
    assert len(found["blocks"]) == 2 and said["right"] is True
    assert why["cause"] == "not_in_corpus" and "Arthur C. Clarke" in why["detail"]
    assert own["results"][0]["question"] == "Who was Marie Curie?"
    deployments, jobs, waiting = map(json.loads, operated)  # nothing was accepted yet, so nothing is downloaded
    assert deployments["results"][0]["is_active"] and jobs["results"] == []
    assert all(one["review"] == "waiting" and one["teaches"] for one in waiting["results"])
    text, file, bulk, again, put, removed = map(json.loads, edited[0])
    assert [one["changes"] for one in (text, file, bulk)] == [1, 1, 2]
    assert again["documents"] == bulk["documents"] and again["changes"] == put["changes"] == 0 and removed == 204
    made, opened, weighed, board, gone = map(json.loads, edited[2])
    assert (made["groups"], opened["groups"]) == ([], ["curators"])
    assert (made["weight"], weighed["weight"], gone) == (1.0, 1.5, 204)
    assert board == weighed and board["private"] and board["groups"] == ["curators"]
    weekly, daily, begun, removed, trail = map(json.loads, edited[3])
    assert (weekly["when"], daily["when"], removed) == ("every Sunday at 02:30 UTC", "daily at 02:30 UTC", 204)
    assert begun["last_outcome"].startswith("Nothing new to index")
    assert trail["results"][0]["details"] == {"schedule": weekly["id"]}
    described, preview, changed, shown, touched, *undone, changes, answers, purge = map(json.loads, edited[1])
    removed, restored, again = undone
    assert restored["changes"] == 1 and restored["documents"][0]["id"] == "guides/oulu" and again == 204
    assert [len(preview[f"passages_{name}"]) for name in ("gone", "new", "kept")] == [1, 1, 0]
    assert described["changes"] == changed["changes"] == 1 and removed == 204
    assert (shown["licence"], shown["tags"]) == ("CC BY 4.0", ["cities"])
    assert touched["summary"]["answers"] == answers["summary"]["answers"] == 0
    assert changes["results"][0]["document"] == "guides/turku" and len(purge["documents"]) == 4


def test_operators_commands(running: Running, tmp_path: Path) -> None:
    jobs, deployed = (map(json.loads, lines) for lines in output_of(blocks("operations.md", "sh"), running, tmp_path))
    kinds, started, job, log, stopped = jobs
    assert "index" in [kind["kind"] for kind in kinds]
    assert job["id"] == started["id"] and job["state"] == "queued" and log["text"] == ""
    assert stopped["state"] == "stopped"
    made, back = deployed
    assert made["is_active"] and back["is_active"] and back["id"] > made["id"]


@pytest.mark.parametrize("program", blocks("clients.md", "python")[1:])
def test_programs(
    running: Running, program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # where one of them writes a file
    for name, value in names_of(running).items():
        monkeypatch.setenv(name, value)
    known: dict[str, Any] = {}
    exec(blocks("clients.md", "python")[0], known)  # with which the page says that all begin
    exec(program, known)
    assert capsys.readouterr().out.strip()


def test_the_page_introduces_what_its_commands_name() -> None:
    page = (TOP / "docs" / "clients.md").read_text(encoding="utf-8")
    before, _, commands = page.partition("## curl")
    assert set(re.findall(r"\$(REALM\w*)", commands)) == set(re.findall(r"^export (\w+)=", before, re.MULTILINE))
