"""What the stages of an ablation measure and print, passed on to the whole while they run.

A row of metrics gets what it is of (`stage`, `row`, `questions`) and keeps its time, by which it is known again: after
an interruption each goes on once, whichever attempt had measured it. A line of a log gets the stage's name; those of
earlier attempts stand where these left them.
"""

from __future__ import annotations

from realm_core.runs.activity import Activity
from realm_core.runs.folder import RunFolder, Tail, metric_row
from realm_core.training.ablation import Of, Stage

Passed = dict[Of, set[tuple[int, float]]]


class Relay:
    """Passes on what one stage leaves in its run folder. passed: (step, time) of rows that went on before."""

    def __init__(self, stage: Stage, run: RunFolder, passed: Passed, activity: Activity) -> None:
        self._stage, self._activity = stage, activity
        self._passed = passed.get(stage.of, set())
        self._metrics = Tail(run.metrics_file)
        self._log = Tail(run.log_file, run.log_size())

    def look(self) -> None:
        """Pass on what is new and complete; cheap where nothing is."""
        for line in self._metrics.take():
            row = metric_row(line)
            if row is not None and (row["step"], row["time"]) not in self._passed:
                self._activity.metrics(**{**row, **self._stage.of.said()})
        for line in self._log.take():
            self._activity.say(f"{self._stage.name}: {line.decode(errors='replace')}")


def passed_on(activity: Activity) -> Passed:
    """What went on in earlier attempts of this run."""
    passed: Passed = {}
    if activity.run is not None:
        for line in Tail(RunFolder(activity.run).metrics_file).take():
            if (row := metric_row(line)) is not None:
                of = Of(row.get("stage", ""), row.get("row", ""), row.get("questions", ""))
                passed.setdefault(of, set()).add((row["step"], row["time"]))
    return passed
