"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 90  # on a machine that does other things, too; a process that imports torch takes seconds


def wait_until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Look again and again until `condition` holds."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "It did not happen in time."
        time.sleep(0.05)
