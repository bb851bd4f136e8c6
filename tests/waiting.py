"""Waiting for what other threads and processes do."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 240.0  # the machine may be busy; a test that waits this long has failed


def wait_until(
    condition: Callable[[], object], process: subprocess.Popen[str] | None = None, *, patience_s: float = PATIENCE_S
) -> None:
    """Look again and again until `condition` holds.

    process: who makes it hold. If it ends before, that is a failure with its words.
    """
    deadline = time.monotonic() + patience_s
    while not condition():
        if process is not None and process.poll() is not None:
            raise AssertionError(f"The process ended with {process.returncode}: {process.communicate()[1]}")
        if time.monotonic() > deadline:
            if process is not None:
                process.kill()
            raise AssertionError(f"Nothing happened in {patience_s:.0f} s.")
        time.sleep(0.05 if process is None else 0.001)  # what a process is in the middle of is soon over


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
