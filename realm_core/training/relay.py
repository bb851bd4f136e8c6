"""What the stages of an ablation measure and print, passed on to the whole while they run.

A row of metrics gets what it is of (`stage`, `row`, `questions`) and keeps its time, by which it is known again: after
an interruption each goes on once, whichever attempt had measured it. A line of a log gets the stage's name; those of
earlier attempts stand where these left them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from realm_core.activity import Activity
from realm_core.training.ablation import Of, Stage

Passed = dict[Of, set[tuple[int, float]]]


class Relay:
    """Passes on what one stage leaves in its run folder. passed: (step, time) of rows that went on before."""

    def __init__(self, stage: Stage, run: Path, passed: Passed, activity: Activity) -> None:
        self._stage, self._activity = stage, activity
        self._passed = passed.get(stage.of, set())
        self._metrics = _Tail(run / "metrics.jsonl")
        log = run / "log.txt"
        self._log = _Tail(log, log.stat().st_size if log.exists() else 0)

    def look(self) -> None:
        """Pass on what is new and complete; cheap where nothing is."""
        for line in self._metrics.lines():
            row = _row(line)
            if row is not None and (row["step"], row["time"]) not in self._passed:
                self._activity.metrics(**{**row, **self._stage.of.said()})
        for line in self._log.lines():
            self._activity.say(f"{self._stage.name}: {line.decode(errors='replace')}")


def passed_on(activity: Activity) -> Passed:
    """What went on in earlier attempts of this run."""
    passed: Passed = {}
    if activity.run is not None:
        for line in _Tail(activity.run / "metrics.jsonl").lines():
            if (row := _row(line)) is not None:
                of = Of(row.get("stage", ""), row.get("row", ""), row.get("questions", ""))
                passed.setdefault(of, set()).add((row["step"], row["time"]))
    return passed


class _Tail:
    """The lines that are appended to a file, from a place on."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path, self._offset = path, offset

    def lines(self) -> list[bytes]:
        """Those since the last look that have their end."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                chunk = file.read()
        except FileNotFoundError:
            return []
        complete = chunk[: chunk.rfind(b"\n") + 1]
        self._offset += len(complete)
        return complete.splitlines()


def _row(line: bytes) -> dict[str, Any] | None:
    """A row of metrics; None for half a line, cut by the end of an earlier attempt."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and {"step", "time"} <= row.keys() else None
