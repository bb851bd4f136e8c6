"""The run folder: files that a long activity writes, for readers during the run and afterwards.

    task.json       the activity and its fields
    progress.json   {"done", "total", "unit", "rate", "seconds_left", "message", "time"}, replaced atomically
    metrics.jsonl   one JSON object per line: {"step", "time", name: number, …}; only ever appended to
    log.txt         output of its processes, of all attempts
    result.json     the result, written last
    lock            held by the process that works there (launch.py, locks.py)

`realm_core.runs.activity` writes progress, metrics and result, the command line the task, the runner the log.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOCK = "lock"
_ERROR = "error: "  # prefix of the error message of `python -m realm_core`
_SENTENCE_BYTES = 64 << 10  # at the end of a log that are searched for that message


@dataclass(frozen=True)
class RunFolder:
    """A run folder, which may not exist yet."""

    path: Path

    @property
    def task_file(self) -> Path:
        return self.path / "task.json"

    @property
    def progress_file(self) -> Path:
        return self.path / "progress.json"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def log_file(self) -> Path:
        return self.path / "log.txt"

    @property
    def result_file(self) -> Path:
        return self.path / "result.json"

    @property
    def lock_file(self) -> Path:
        return self.path / LOCK

    def progress(self) -> dict[str, Any] | None:
        """The last report of the process, or None."""
        return read_object(self.progress_file)

    def result(self) -> dict[str, Any] | None:
        return read_object(self.result_file)

    def log_size(self) -> int:
        """Bytes of the log."""
        return self.log_file.stat().st_size if self.log_file.exists() else 0

    def log_tail(self, most_bytes: int, start: int = 0) -> str:
        """The end of the log, without anything before the byte `start`."""
        try:
            with open(self.log_file, "rb") as file:
                size = file.seek(0, 2)
                file.seek(max(start, size - most_bytes))
                return file.read().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def error_sentence(self, start: int = 0) -> str | None:
        """The last error message in the log after the byte `start`."""
        lines = self.log_tail(_SENTENCE_BYTES, start).splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith(_ERROR)]
        return "\n".join(lines[starts[-1] :]).removeprefix(_ERROR).strip() if starts else None


class Tail:
    """Lines appended to a file. offset: bytes already processed."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path, self.offset = path, offset

    def new(self) -> tuple[list[bytes], int]:
        """(complete lines after the offset, the offset after them)."""
        try:
            with open(self._path, "rb") as file:
                start = self.offset if file.seek(0, 2) >= self.offset else 0  # the file may have been rewritten
                file.seek(start)
                chunk = file.read()
        except FileNotFoundError:
            return [], self.offset
        complete = chunk[: chunk.rfind(b"\n") + 1]
        return complete.splitlines(), start + len(complete)

    def take(self) -> list[bytes]:
        """The new lines, which then count as processed."""
        lines, self.offset = self.new()
        return lines


def metric_row(line: bytes) -> dict[str, Any] | None:
    """A row of metrics; None for an incomplete line at the end of an earlier attempt."""
    row = _parse(line)
    return row if isinstance(row, dict) and {"step", "time"} <= row.keys() else None


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None if there is none."""
    try:
        value = _parse(path.read_bytes())
    except FileNotFoundError:
        return None
    return value if isinstance(value, dict) else None


def _parse(text: bytes) -> Any:
    """JSON, or None if it is invalid. NaN and infinities, which databases refuse, become null."""
    try:
        return json.loads(text, parse_constant=lambda _name: None, parse_float=_finite)
    except ValueError:
        return None


def _finite(text: str) -> float | None:
    number = float(text)  # 1e999 is valid JSON and infinite
    return number if math.isfinite(number) else None
