"""What /proc shows of a site: its programs, and its jobs' own processes. REALM_DATA says of which."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.waiting import alive


def processes() -> list[tuple[int, list[str]]]:
    """(process id, words of its command) of whatever runs."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            found.append((int(path.name), (path / "cmdline").read_text().split("\0")[:-1]))
        except (OSError, UnicodeDecodeError):
            continue
    return found


def kind(words: list[str]) -> str:
    """What a process is: a program of the supervisor's, or a job's activity; "" for one that is none of ours."""
    told = " ".join(words)
    if run_of(words):
        return words[words.index("realm_core") + 1]
    if told.partition(" ")[0].endswith(("valkey-server", "redis-server")):
        return "broker"
    if "gunicorn" in words:
        return "web"
    if "celery" in words:
        return "scheduler" if "beat" in words else "worker"
    return ""


def run_of(words: list[str]) -> str:
    """The run folder that a job's process of ours was started for. (The launcher has not become it yet.)"""
    data = os.environ["REALM_DATA"]
    run = next((word.removeprefix("--run=") for word in words if word.startswith(f"--run={data}/runs/")), "")
    return "" if any(word.endswith("launch.py") for word in words) else run


def runs() -> dict[str, list[int]]:
    """Run folder → the processes that were started for it."""
    found: dict[str, list[int]] = {}
    for pid, words in processes():
        if run := run_of(words):
            found.setdefault(run, []).append(pid)
    return found


def has_got_further(pid: int, run: Path) -> bool:
    """Whether the process has noted progress since it began."""
    try:
        began = float(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        noted = time.time() - (run / "progress.json").stat().st_mtime
    except OSError:
        return False
    return noted < time.clock_gettime(time.CLOCK_BOOTTIME) - began


def parent(pid: int) -> int:
    """Process id of the parent, 0 of one that is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def working_twice() -> dict[str, list[int]]:
    """Run folders for which more than one process works, and those processes.

    A child that has not become another program yet still has the words of its parent.
    """
    twice = {}
    for run, found in runs().items():
        pids = [pid for pid in found if parent(pid) not in found]
        if len(pids) > 1 and all(alive(pid) for pid in pids):
            twice[run] = pids
    return twice
