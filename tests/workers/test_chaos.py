"""A short run of chaos; `make chaos` is the long one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.workers.chaos import TOP


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
