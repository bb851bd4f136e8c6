"""Copies what a running process writes to its run folder into records: progress, metrics, log, result."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from realm_core.files import write_json
from realm_core.runs.folder import RunFolder, Tail, metric_row, read_object
from webapp.models import Job, JobMetric
from webapp.models.job import LOG_CHARACTERS
from webapp.models.job_states import COMPANION_KINDS

BEGINNING = "beginning again with what is kept"  # until the process of the next attempt reports
_TAIL_BYTES = LOG_CHARACTERS * 4  # UTF-8 has at most four bytes per character


def note(folder: RunFolder, text: str) -> None:
    """Add a line to a job's log about what its process cannot report any more."""
    with suppress(OSError), open(folder.log_file, "a", encoding="utf-8") as log:  # the disk may be full
        log.write(f"\n[{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC] {text}\n")


class RunFiles:
    """The run folder of one attempt at a job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.folder = RunFolder(job.run_dir)
        self.folder.path.mkdir(parents=True, exist_ok=True)
        self.folder.result_file.unlink(missing_ok=True)  # from an earlier attempt
        self._furthest_file = self.folder.path / "furthest.json"
        self._furthest: dict[str, float] = read_object(self._furthest_file) or {}
        if said := self.folder.progress() or {}:  # the pace, step and time of an earlier attempt are not this one's
            begun = {"rate": None, "seconds_left": None, "message": BEGINNING, "time": time.time()}
            write_json(self.folder.progress_file, said | begun)
        self._last = said["done"] if said.get("done") and said["done"] == said.get("total") else 0
        self._log_start = self.folder.log_size()
        self._metrics = Tail(self.folder.metrics_file)
        # Rows that an earlier attempt read; if the file was lost since, it has others.
        self._known_metrics = set(JobMetric.objects.filter(job=job).values_list("step", "time"))

    def final_progress(self) -> dict[str, Any] | None:
        """The last report when the attempt has ended; if its process made none, it is not beginning any more."""
        said = self.folder.progress()
        return {**said, "message": ""} if said and said.get("message") == BEGINNING else said

    def got_further(self) -> bool:
        """Whether progress exceeds all earlier attempts'; updates the record. Companion jobs restart their count."""
        said = self.folder.progress() or {}
        done, unit = said.get("done"), str(said.get("unit"))
        if not isinstance(done, int):
            return False
        if self._job.kind in COMPANION_KINDS and done < self._last:
            self._furthest[unit] = 0
        self._last = done
        if done <= self._furthest.get(unit, 0):
            return False
        self._furthest[unit] = done
        write_json(self._furthest_file, self._furthest)
        return True

    def log_tail(self) -> str:
        """The end of the log, as much as a job's row keeps."""
        return self.folder.log_tail(_TAIL_BYTES)

    def error_sentence(self) -> str | None:
        """The sentence with which this attempt's process explained its failure."""
        return self.folder.error_sentence(self._log_start)

    def copy_metrics(self) -> None:
        """Turn new complete lines of metrics.jsonl into rows."""
        lines, offset = self._metrics.new()
        rows = [row for line in lines if (row := self._metric(line)) is not None]
        new = [row for row in rows if (row.step, row.time) not in self._known_metrics]
        JobMetric.objects.bulk_create(new, batch_size=500)
        self._metrics.offset = offset  # once they are records
        if lines:
            self._known_metrics = set()  # all of them stood in what has just been read

    def _metric(self, line: bytes) -> JobMetric | None:
        value: dict[str, Any] = metric_row(line) or {}
        try:
            step, measured_at = int(value.pop("step")), datetime.fromtimestamp(value.pop("time"), tz=UTC)
        except (KeyError, TypeError, ValueError, OverflowError, OSError):
            return None  # half a line, cut by the end of an earlier attempt
        return JobMetric(job=self._job, step=step, time=measured_at, values=value)
