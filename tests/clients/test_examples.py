"""What docs/clients.md shows is what a running server does: its commands and programs, one after another."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import TOP, Running

PAGE = (TOP / "docs" / "clients.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The pieces of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_commands(running: Running, tmp_path: Path) -> None:
    names = {"REALM": running.address, "REALM_TOKEN": running.asker, "REALM_ADMIN_TOKEN": running.admin}
    shown = blocks("sh")
    # Every curl fails where the server refuses; a mark between the pieces tells their outputs apart.
    script = 'set -euo pipefail\ncurl() { command curl --fail-with-body "$@"; echo; }\n' + "\necho '§'\n".join(shown)
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={**os.environ, **names}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    asked, kept, taken, many, rest, operated = (
        [line for line in piece.splitlines() if line.strip()] for piece in done.stdout.split("§")
    )
    answer = json.loads(asked[0])
    assert kept == ["304"] and json.loads((tmp_path / "kept.json").read_text()) == answer
    without, block, article = map(json.loads, taken)
    assert without["without"] == [block["block_id"]] == [answer["evidence"][0]["block_id"]]
    assert block["text"] in article["text"]
    results, *lines = map(json.loads, many)
    assert [len(result["answer"]["evidence"]) for result in results["results"]] == [5, 3]
    assert [line["answer"]["question"] for line in lines] == ["What is tungsten?", "Who was Marie Curie?"]
    found, said, own = map(json.loads, rest)
    assert len(found["blocks"]) == 2 and said["right"] is True
    assert own["results"][0]["question"] == "Who was Marie Curie?"
    deployments, jobs, waiting = map(json.loads, operated)  # nothing was accepted yet, so nothing is downloaded
    assert deployments["results"][0]["is_active"] and jobs["results"] == []
    assert all(one["review"] == "waiting" and one["teaches"] for one in waiting["results"])


@pytest.mark.parametrize("program", blocks("python"))
def test_programs(
    running: Running, program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # where one of them writes a file
    exec(program, {"REALM": running.address, "REALM_TOKEN": running.asker, "REALM_ADMIN_TOKEN": running.admin})
    assert capsys.readouterr().out.strip()
