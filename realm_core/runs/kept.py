"""A process that is kept running: its log, its end, its restarts."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import Popen

from realm_core.runs.processes import ask_to_end, describe_end, end, start

_FIRST_PAUSE_S = 1.0
_STEADY_AFTER_S = 60.0  # a process that has run so long counts as started successfully
_LARGE_LOG_BYTES = 10 << 20


class KeptProcess:
    """A command that is restarted whenever it dies, after 1 s, then 2 s, up to `longest_pause_s`.

    The owner calls `look` repeatedly, in one thread, which must live as long as the process.
    log: file for its output. folder: see `start`. grace_s: from the request to end to SIGKILL.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        *,
        folder: Path | None = None,
        grace_s: float = math.inf,
        longest_pause_s: float = 30.0,
    ) -> None:
        self.name, self.log, self._grace_s = name, log, grace_s
        self.deaths = 0  # consecutive, without a long run in between
        self.pause_s = 0.0
        self._command, self._environment = command, environment
        self._folder, self._longest_pause_s = folder, longest_pause_s
        self._process: Popen[bytes] | None = None
        self._started_at = 0.0
        self._start_at = 0.0

    def start(self) -> None:
        """Start it; its output is appended to the log."""
        self.limit_log()
        with open(self.log, "ab") as output:
            self._process = start(self._command, output=output, environment=self._environment, folder=self._folder)
        self._started_at = time.monotonic()

    def limit_log(self) -> None:
        """Move the lines of a large log to LOG.1, in place of those there; the process goes on appending to the log."""
        with suppress(OSError):  # there is none yet, or the disk is full
            if self.log.stat().st_size > _LARGE_LOG_BYTES:
                shutil.copyfile(self.log, self.log.with_suffix(".log.1"))
                os.truncate(self.log, 0)

    def look(self) -> str | None:
        """Start it if it is due. If it has just died, return how, in a clause, and schedule a restart."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._start_at:
                self.start()
            return None
        if self._process.poll() is None:
            return None
        status = end(self._process)  # with its remaining children
        self._process = None
        if now - self._started_at > _STEADY_AFTER_S:
            self.deaths = 0
        self.pause_s = min(_FIRST_PAUSE_S * 2**self.deaths, self._longest_pause_s)
        self.deaths += 1
        self._start_at = now + self.pause_s
        return f"ended {describe_end(status)}"

    def last_words(self) -> str:
        """The last line of its log."""
        try:
            lines = self.log.read_bytes()[-4000:].decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1].strip() if lines else ""

    def ask_to_end(self) -> None:
        if self._process is not None:
            ask_to_end(self._process)

    def end(self, asked_at: float, kill_now: Callable[[], bool] = lambda: False) -> None:
        """Wait until it has ended, as requested at `asked_at`; kill it after the grace period."""
        if self._process is not None:
            end(self._process, asked_at + self._grace_s, kill_now)
            self._process = None

    def kill(self) -> None:
        """End it now, with all its children."""
        self.end(-math.inf)
