"""A file system of a few MB, in memory, that really fills up; for processes of `python -m realm_core`.

It is mounted in a namespace of its own, which any user may make where the system allows it: nobody else sees it, and it
goes with the process that holds it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.core.processes import TOP
from tests.waiting import PATIENCE_S

_HOLD = 'mount -t tmpfs -o size="$1" none "$2" && echo mounted && exec cat'


class CannotMount(Exception):
    """This system lets nobody mount a file system here; the message is what it said."""


class SmallDisk:
    """path: where it lies for processes that `run` starts. files: the same place, as this process reaches it."""

    def __init__(self, path: Path, holder: int) -> None:
        self.path = path
        self.files = Path(f"/proc/{holder}/root{path}")
        self._enter = [f"--target={holder}", "--user", "--mount", "--preserve-credentials", f"--wd={TOP}"]
        self._ballast = self.files / "ballast"

    def fill(self, *, but_bytes: int) -> None:
        """Leave room for so many bytes."""
        disk = os.statvfs(self.files)
        self._ballast.write_bytes(bytes(disk.f_bavail * disk.f_frsize - but_bytes))

    def make_room(self) -> None:
        """Take away what filled it."""
        self._ballast.unlink()

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """`python -m realm_core …` in a process that sees this file system, to its end."""
        command = ["nsenter", *self._enter, sys.executable, "-m", "realm_core", *map(str, arguments)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@contextmanager
def small_disk(path: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """A file system at `path`, which is made, until the end of the block; `CannotMount` where none can be."""
    path.mkdir()
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", _HOLD, "sh", str(size_bytes), str(path)]
    try:
        holder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    except FileNotFoundError as error:
        raise CannotMount(str(error)) from None
    with holder:  # waits for its end, which comes when its standard input is closed
        assert holder.stdin is not None and holder.stdout is not None and holder.stderr is not None
        with holder.stdin:
            if holder.stdout.readline() != "mounted\n":
                raise CannotMount(holder.stderr.read().strip())
            yield SmallDisk(path, holder.pid)
