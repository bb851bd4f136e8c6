"""Real processes of `python -m realm_core`, watched until they have done something and then stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.waiting import PATIENCE_S

TOP = Path(__file__).resolve().parents[2]


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
