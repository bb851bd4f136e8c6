"""A process that is kept running: started again after ever longer pauses."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from realm_core.runs import kept
from realm_core.runs.kept import KeptProcess
from tests.waiting import wait_until

DIES = "print('its last words'); raise SystemExit(3)"


def keep(folder: Path, program: str, **options: Any) -> KeptProcess:
    return KeptProcess("one", [sys.executable, "-c", program], folder / "one.log", os.environ, **options)


def test_one_that_dies_is_started_again_after_ever_longer_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_FIRST_PAUSE_S", 0.01)
    process, told = keep(tmp_path, DIES, longest_pause_s=0.03), list[tuple[str, float]]()

    def died() -> bool:
        if (death := process.look()) is not None:
            told.append((death, process.pause_s))
        return len(told) == 4

    wait_until(died)
    assert told == [("ended with status 3", pause_s) for pause_s in (0.01, 0.02, 0.03, 0.03)]
    assert process.last_words() == "its last words" and (tmp_path / "one.log").read_text().count("its last words") == 4


def test_after_a_steady_time_it_is_started_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(kept, "_STEADY_AFTER_S", 0.0)
    process, pauses = keep(tmp_path, DIES), list[float]()
    wait_until(lambda: (process.look() and pauses.append(process.pause_s)) or len(pauses) == 3)
    assert pauses == [0.01] * 3


def test_a_large_log_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_LARGE_LOG_BYTES", 3)
    (tmp_path / "one.log").write_text("large")
    process = keep(tmp_path, DIES)
    process.start()
    wait_until(process.look)
    assert (tmp_path / "one.log.1").read_text() == "large"
    assert (tmp_path / "one.log").read_text() == "its last words\n"


def test_the_log_of_a_running_process_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_LARGE_LOG_BYTES", 10)
    go, log = tmp_path / "go", tmp_path / "one.log"
    waits = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
    process = keep(tmp_path, f"print('many words', flush=True)\n{waits}print('more', flush=True)")
    process.start()
    wait_until(lambda: log.read_text() == "many words\n")
    process.limit_log()
    go.touch()
    wait_until(process.look)
    assert (tmp_path / "one.log.1").read_text() == "many words\n"
    assert log.read_text() == "more\n"  # without a gap of zeros
    process.limit_log()
    assert log.read_text() == "more\n"
