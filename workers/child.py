"""One program under the supervisor: its log, its end, when it is started again."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from workers.processes import ask_to_end, describe_end, kill_all, start
from workers.services import Service

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_STEADY_AFTER_S = 60.0  # whatever has run so long starts again at once
_LARGE_LOG_BYTES = 10 << 20


class Child:
    """A service that is kept running."""

    def __init__(self, service: Service, logs: Path, environment: Mapping[str, str]) -> None:
        self.service = service
        self.log = logs / f"{service.name}.log"
        self.deaths = 0  # in a row, without a steady time between them
        self.pause_s = 0.0
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._start_at = 0.0

    def start(self) -> None:
        """Start it; what it prints is added to its log."""
        if self.log.exists() and self.log.stat().st_size > _LARGE_LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        with open(self.log, "ab") as output:
            self._process = start(self.service.command, output=output, environment=self._environment)
        self._started_at = time.monotonic()

    def look(self) -> str | None:
        """Start it again if its time has come. If it has just died, says so in a clause and plans that."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._start_at:
                self.start()
            return None
        status = self._process.poll()
        if status is None:
            return None
        kill_all(self._process)  # helpers that it left behind
        self._process = None
        if now - self._started_at > _STEADY_AFTER_S:
            self.deaths = 0
        self.pause_s = min(_FIRST_PAUSE_S * 2**self.deaths, _LONGEST_PAUSE_S)
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

    def alive(self) -> bool:
        """Whether its process still runs."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it now, with all that it started."""
        if self._process is not None:
            kill_all(self._process)
            self._process.wait()
            self._process = None
