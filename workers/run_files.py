"""Read what a running process leaves in its run folder: progress, metrics, log, result."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from realm_core.files import write_json
from webapp.models import Job, JobMetric
from webapp.models.job import LOG_CHARACTERS
from webapp.models.job_states import BESIDE

_TAIL_BYTES = LOG_CHARACTERS * 4  # UTF-8 takes at most four bytes a character
_ERROR = "error: "  # how `python -m realm_core` begins the sentence that says why it failed


class RunFiles:
    """The run folder of one attempt at a job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.folder: Path = job.run_dir
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "log.txt"
        self.lock = self.folder / "lock"
        self._result = self.folder / "result.json"
        self._result.unlink(missing_ok=True)  # of an earlier attempt
        self._furthest_file = self.folder / "furthest.json"
        known = _parse(self._read(self._furthest_file))
        self._furthest: dict[str, float] = known if isinstance(known, dict) else {}
        said = self.progress() or {}
        self._last = said["done"] if said.get("done") and said["done"] == said.get("total") else 0
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._metrics_offset = 0
        # Rows of lines that an earlier attempt read. They may be others than the file has, if that was lost since.
        self._known_metrics = set(JobMetric.objects.filter(job=job).values_list("step", "time"))

    def progress(self) -> dict[str, Any] | None:
        """What the process last reported, or None."""
        value = _parse(self._read(self.folder / "progress.json"))
        return value if isinstance(value, dict) else None

    def got_further(self) -> bool:
        """Whether more is done than any attempt had done before, of whatever it counts; asked once, it is noted.

        What runs beside its whole does the same again and again: each time it begins, it is counted anew.
        """
        said = self.progress() or {}
        done, unit = said.get("done"), str(said.get("unit"))
        if not isinstance(done, int):
            return False
        if self._job.kind in BESIDE and done < self._last:
            self._furthest[unit] = 0
        self._last = done
        if done <= self._furthest.get(unit, 0):
            return False
        self._furthest[unit] = done
        write_json(self._furthest_file, self._furthest)
        return True

    def result(self) -> dict[str, Any] | None:
        """What came of it, or None when the process left nothing."""
        value = _parse(self._read(self._result))
        return value if isinstance(value, dict) else None

    def log_tail(self) -> str:
        """The end of the log, as much as a job's row keeps."""
        return self._log_from(0)

    def note(self, text: str) -> None:
        """Write a line of the worker's own into the log, where the process cannot say it any more."""
        with suppress(OSError), open(self.log, "a", encoding="utf-8") as log:  # a full disk has other witnesses
            log.write(f"\n[{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC, the worker] {text}\n")

    def error_sentence(self) -> str | None:
        """The sentence with which this attempt's process explained its failure."""
        lines = self._log_from(self._log_start).splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith(_ERROR)]
        return "\n".join(lines[starts[-1] :]).removeprefix(_ERROR).strip() if starts else None

    def copy_metrics(self) -> None:
        """Turn the lines of metrics.jsonl that are new and complete into rows."""
        try:
            with open(self.folder / "metrics.jsonl", "rb") as file:
                file.seek(self._metrics_offset)
                chunk = file.read()
        except FileNotFoundError:
            return
        complete = chunk[: chunk.rfind(b"\n") + 1]
        rows = [row for line in complete.splitlines() if (row := self._metric(line)) is not None]
        new = [row for row in rows if (row.step, row.time) not in self._known_metrics]
        JobMetric.objects.bulk_create(new, batch_size=500)
        self._known_metrics = set()  # all of them stood in what has just been read
        self._metrics_offset += len(complete)

    def _metric(self, line: bytes) -> JobMetric | None:
        value = _parse(line)
        try:
            step, time = int(value.pop("step")), datetime.fromtimestamp(value.pop("time"), tz=UTC)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, OSError):
            return None  # half a line, cut by the end of an earlier attempt
        return JobMetric(job=self._job, step=step, time=time, values=value)

    def _log_from(self, start: int) -> str:
        try:
            with open(self.log, "rb") as file:
                size = file.seek(0, 2)
                file.seek(max(start, size - _TAIL_BYTES))
                return file.read().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    @staticmethod
    def _read(path: Path) -> bytes:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return b""


def _parse(text: bytes) -> Any:
    """JSON, or None when it is not. NaN and infinities, which no database takes, become null."""
    try:
        return json.loads(text, parse_constant=lambda _name: None, parse_float=_finite)
    except ValueError:
        return None


def _finite(text: str) -> float | None:
    number = float(text)  # 1e999 is valid JSON and infinite
    return number if math.isfinite(number) else None
