"""Real processes of `python -m realm_core`, watched until they have done something and then stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
# The machine may be busy; a test that waits this long has failed.
PATIENCE_S = 240.0


def start(arguments: Sequence[str]) -> subprocess.Popen[str]:
    """Start `python -m realm_core …`; one thread, so that sums are made in one order."""
    return subprocess.Popen(
        [sys.executable, "-m", "realm_core", *arguments],
        cwd=TOP,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """(exit status, stderr)."""
    try:
        _, errors = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, errors


def run(arguments: Sequence[str]) -> tuple[int, str]:
    """Run it to its end: (exit status, stderr)."""
    return finish(start(arguments))


def wait_until(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something that `process` does; if it ends before, that is a failure with its words."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        if process.poll() is not None:
            raise AssertionError(f"The process ended with {process.returncode}: {process.communicate()[1]}")
        if time.monotonic() > deadline:
            process.kill()
            raise AssertionError(f"Nothing happened in {PATIENCE_S:.0f} s.")
        time.sleep(0.001)
