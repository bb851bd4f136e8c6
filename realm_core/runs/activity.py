"""Communication of a long activity with its caller: progress, metrics, result, and stopping.

The same `Activity` serves a terminal, a test and a supervised subprocess. It reports into a run folder
(runs/folder.py), and on a terminal in a line that is rewritten in place. SIGTERM and SIGINT request a stop: `check()`
raises `Stopped` at the next safe point, optionally also after the parent process has ended.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from realm_core.errors import Stopped
from realm_core.files import disk_errors, write_json
from realm_core.runs.folder import RunFolder

_PROGRESS_EVERY_S = 0.5
_LOG_EVERY_S = 5.0  # a file keeps all lines, so there should be few


class Activity:
    """One run of a long activity.

    run:          folder for progress, metrics and result, or None.
    quiet:        print nothing but errors.
    with_parent:  process id of the parent: stop when it has ended. (Passed in, because reading it here might already
                  give another one: starting up takes seconds.)
    """

    def __init__(self, run: Path | None = None, *, quiet: bool = False, with_parent: int | None = None) -> None:
        self.run = run
        self._folder = None if run is None else RunFolder(run)
        self._parent = with_parent
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._stop_requested = False
        # A monotonic clock; the times that are written are of the wall clock.
        self._started_at = self._last_shown_at = self._last_logged_at = -math.inf
        self._first_done = self._done = 0
        self._counting: tuple[int | None, str] | None = None
        self._line_open = self._measured = False
        self._unreported: tuple[int, int | None, str, str] | None = None  # too soon after the last report
        if run is not None:
            with disk_errors(run):
                run.mkdir(parents=True, exist_ok=True)

    def stop_on_signals(self) -> None:
        """Let SIGTERM and SIGINT request a stop (only a process's main thread may call this)."""

        def request(_number: int, _frame: FrameType | None) -> None:
            if self._stop_requested:  # a second signal: stop without a safe point
                raise KeyboardInterrupt
            self._stop_requested = True

        signal.signal(signal.SIGTERM, request)
        signal.signal(signal.SIGINT, request)

    def check(self) -> None:
        """Raise `Stopped` if a stop was requested. Called wherever stopping loses nothing."""
        if self._stop_requested or (self._parent is not None and os.getppid() != self._parent):
            self.flush()
            raise Stopped

    def say(self, message: str) -> None:
        if not self._quiet:
            self._print(message)

    def warn(self, message: str) -> None:
        """Print a warning, also in quiet mode; the work goes on, and `error_sentence` does not take it for its end."""
        self._print(f"warning: {message}")

    def _print(self, message: str) -> None:
        if self._line_open:
            print(file=sys.stderr)
            self._line_open = False
        print(message, file=sys.stderr, flush=True)

    def progress(self, done: int, total: int | None, unit: str, message: str = "") -> None:
        """Report that `done` of `total` `unit`s (None: unknown) are finished; cheap to call often."""
        now = time.monotonic()
        again = done <= self._first_done and done < self._done
        if self._counting != (total, unit) or again:  # a new count starts
            self._counting = (total, unit)
            self._started_at, self._first_done, self._last_shown_at = now, done, -math.inf
        self._done = done
        finished = total is not None and done >= total
        if now - self._last_shown_at < _PROGRESS_EVERY_S and not finished:
            self._unreported = (done, total, unit, message)
        else:
            self._report(done, total, unit, message)

    def flush(self) -> None:
        """Report the progress that came too soon after the last report, before this activity ends."""
        if self._unreported is not None:
            self._report(*self._unreported)

    def _report(self, done: int, total: int | None, unit: str, message: str) -> None:
        now, finished = time.monotonic(), total is not None and done >= total
        self._last_shown_at, self._unreported = now, None
        elapsed_s = now - self._started_at
        rate = (done - self._first_done) / elapsed_s if elapsed_s > 0 else None
        seconds_left = (total - done) / rate if total is not None and rate else None
        if self._folder is not None:
            report = {"done": done, "total": total, "unit": unit, "rate": rate, "seconds_left": seconds_left}
            write_json(self._folder.progress_file, {**report, "message": message, "time": time.time()})
        if self._quiet:
            return
        parts = [f"{done:,}" + (f" of {total:,}" if total is not None else "") + f" {unit}"]
        if rate:
            parts.append(f"{per_second(rate)} {unit}/s")
        if seconds_left is not None and not finished:
            parts.append(f"{duration(seconds_left)} left")
        if message:
            parts.append(message)
        self._show(" · ".join(parts), finished)

    def _show(self, text: str, finished: bool) -> None:
        if self._terminal:
            print(f"\r\x1b[2K{text}", end="\n" if finished else "", file=sys.stderr, flush=True)
            self._line_open = not finished
        elif finished or time.monotonic() - self._last_logged_at >= _LOG_EVERY_S:
            self._last_logged_at = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def metrics(self, step: int, **values: float | int | str | None) -> None:
        """Append one row of metrics, with its step and the time (seconds since the epoch)."""
        if self._folder is None:
            return
        path = self._folder.metrics_file
        with disk_errors(path):
            if not self._measured:
                _cut_half_row(path)
                self._measured = True
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, "time": time.time(), **values}) + "\n")

    def result(self, value: dict[str, Any]) -> None:
        """Write the result; the last step of a successful activity."""
        if self._folder is not None:
            write_json(self._folder.result_file, value)


def _cut_half_row(path: Path) -> None:
    """Remove an incomplete last row, left by a full disk or a kill, to which the next row would be appended."""
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)


def per_second(rate: float) -> str:
    """In readable form, never zero: "1,234.5", "0.3", "0.037"."""
    return f"{rate:,.1f}" if rate >= 1 else f"{rate:.2g}"


def duration(seconds: float) -> str:
    """In readable form: "3 d 4 h", "2 h 05 min", "3 min 20 s", "12 s"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    days, hours_left = divmod(hours, 24)
    if days:
        return f"{days} d {hours_left} h"
    if hours:
        return f"{hours} h {minutes_left:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
