"""With what priority a command runs that is started to yield: in its session, and its session among others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from realm_core.runs.processes import kill_all, start, under_torchrun

TELL = """
import json, os, pathlib
group = pathlib.Path("/proc/self/autogroup")
told = [os.getpriority(os.PRIO_PROCESS, 0), group.read_text().split()[-1] if group.exists() else None]
os.write(1, json.dumps(told).encode() + b"\\n")  # at once: two processes share this pipe
"""


@pytest.mark.parametrize(
    ("processes", "niceness"),
    [(1, 0), (1, 7), *(pytest.param(2, niceness, marks=pytest.mark.nightly) for niceness in (0, 7))],
)
def test_a_command_yields_also_to_other_sessions(tmp_path: Path, processes: int, niceness: int) -> None:
    tell = [sys.executable, "-c", TELL]
    command = tell if processes == 1 else under_torchrun(processes, tell, tmp_path / "lock")
    running = start(command, output=subprocess.PIPE, with_errors=False, lock=tmp_path / "lock", nice=niceness)
    told = running.communicate(timeout=240)[0]
    kill_all(running)
    assert running.returncode == 0
    before = os.getpriority(os.PRIO_PROCESS, 0)
    yields = str(before + niceness) if Path("/proc/self/autogroup").exists() else None
    assert [json.loads(line) for line in told.splitlines()] == [[before + niceness, yields]] * processes
