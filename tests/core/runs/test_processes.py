"""A process does not outlive the block that it is started for."""

from __future__ import annotations

import sys
import time
from subprocess import PIPE

import pytest

from realm_core.errors import EXIT_STOPPED, Stopped
from realm_core.runs.processes import awaited, start

LISTENS = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); print(flush=True)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True)"


@pytest.mark.parametrize(
    ("program", "grace_s", "kill_now", "status"),
    [(LISTENS, 60, False, EXIT_STOPPED), (DEAF, 0.1, False, -9), (DEAF, 60, True, -9)],
)
def test_it_is_asked_to_end_and_killed_if_it_does_not(
    program: str, grace_s: float, kill_now: bool, status: int
) -> None:
    process = start([sys.executable, "-c", f"{program}; time.sleep(60)"], output=PIPE)
    began_at = time.monotonic()
    with pytest.raises(Stopped), awaited(process, grace_s, lambda: kill_now):
        assert process.stdout is not None
        with process.stdout as said:
            said.readline()  # it has said how it takes the signal
        raise Stopped
    assert process.returncode == status and time.monotonic() - began_at < 50
