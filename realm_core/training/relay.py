"""Passes the metrics and logs of an ablation's stages on to the ablation while they run.

A row of metrics gets the labels of its stage (`stage`, `row`, `questions`) and keeps its time, which identifies it:
after an interruption each row is passed on once, whichever attempt measured it. A line of a log gets the stage's name;
lines of earlier attempts were passed on by these.
"""

from __future__ import annotations

from realm_core.runs.activity import Activity
from realm_core.runs.folder import RunFolder, Tail, metric_row
from realm_core.training.ablation_plan import AblationStage, StageId

Passed = dict[StageId, set[tuple[int, float]]]


class Relay:
    """Passes on what one stage writes to its run folder. passed: (step, time) of rows passed on earlier."""

    def __init__(self, stage: AblationStage, run: RunFolder, passed: Passed, activity: Activity) -> None:
        self._stage, self._activity = stage, activity
        self._passed = passed.get(stage.id, set())
        self._metrics = Tail(run.metrics_file)
        self._log = Tail(run.log_file, run.log_size())

    def look(self) -> None:
        """Pass on new complete lines; cheap if there are none."""
        for line in self._metrics.take():
            row = metric_row(line)
            if row is not None and (row["step"], row["time"]) not in self._passed:
                self._activity.metrics(**{**row, **self._stage.id.labels()})
        for line in self._log.take():
            self._activity.say(f"{self._stage.name}: {line.decode(errors='replace')}")


def passed_on(activity: Activity) -> Passed:
    """The rows that earlier attempts of this run passed on."""
    passed: Passed = {}
    if activity.run is not None:
        for line in Tail(RunFolder(activity.run).metrics_file).take():
            if (row := metric_row(line)) is not None:
                stage_id = StageId(row.get("stage", ""), row.get("row", ""), row.get("questions", ""))
                passed.setdefault(stage_id, set()).add((row["step"], row["time"]))
    return passed
