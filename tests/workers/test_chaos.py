"""A short run of chaos; `make chaos` is the long one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.web.pages import stored
from tests.workers import chaos
from tests.workers.chaos import TOP, Chaos

pytestmark = pytest.mark.postgresql_only


@pytest.fixture
def watching(tmp_path: Path) -> Chaos:
    """What watches, with nothing that is killed."""
    return Chaos(tmp_path, 1, 0.0, 1, 0)


@pytest.mark.django_db
def test_a_watcher_that_cannot_look_is_told_and_looks_again(watching: Chaos, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([False, False, True])

    def broken() -> None:
        if next(looks):
            watching._over.set()
        raise RuntimeError("nothing to be seen")

    monkeypatch.setattr(chaos, "_LOOK_S", 0.0)
    monkeypatch.setattr("django.db.connection.close", lambda: None)
    watching._watch(broken)
    assert watching.wrong == ["broken could not look: RuntimeError('nothing to be seen')"]


@pytest.mark.django_db
def test_answers_are_counted_and_what_is_no_answer_is_told(watching: Chaos, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(status: int, index: str = "") -> tuple[int, int]:
        monkeypatch.setattr(chaos, "request", lambda *_: (status, {}, json.dumps({"index": index}).encode()))
        watching._ask()
        return watching.answers, len(watching.wrong)

    monkeypatch.setattr(chaos.time, "sleep", lambda _: None)
    index = stored.deployment().index
    index.generation = "deployed"
    index.save()
    assert ask(201, "deployed") == (1, 0)
    assert ask(0) == ask(503) == (1, 0)  # killed; not ready
    assert ask(500) == (1, 1)
    assert ask(201, "another")[1] == 2


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_every_job_ends_right_whatever_is_killed() -> None:
    surroundings = {name: value for name, value in os.environ.items() if not name.endswith("_URL")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.workers.chaos", "--kills", "4", "--pause-s", "6", "--steps", "120"],
        cwd=TOP,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "every job ended right" in done.stdout
