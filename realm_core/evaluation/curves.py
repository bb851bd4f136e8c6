"""Metrics of trainings by step, as one SVG or one table.

`python -m realm_core curves RUN… --figures NAME… --plot FILE.svg --csv FILE.csv`
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from realm_core.errors import RealmError
from realm_core.evaluation.chart import check_plot, curves
from realm_core.evaluation.tasks import Curves
from realm_core.files import disk_errors, parse_json
from realm_core.runs.activity import Activity

Metrics = Mapping[str, Sequence[tuple[float, float]]]  # (step, value) of each figure


def main(task: Curves, activity: Activity) -> None:
    """Draw one panel per figure, with a line for each run that has it; a table has all of it, too."""
    if task.plot is not None:
        check_plot(task.plot)
    measured = {}
    for run in task.runs:
        name, _, folder = run.rpartition("=")
        name = name or Path(folder).resolve().name
        if name in measured:
            raise RealmError(f"{run}: another run has the same name, {name}; give it another one with NAME={folder}.")
        measured[name] = read_metrics(Path(folder) / "metrics.jsonl")
    known = sorted({figure for metrics in measured.values() for figure in metrics})
    unknown = [figure for figure in task.figures if figure not in known]
    if unknown:
        raise RealmError(f"No run has the figure {unknown[0]}; known ones are {', '.join(known) or 'none'}.")
    figures = task.figures or known
    if task.plot is not None:
        panels = {
            figure: {name: metrics[figure] for name, metrics in measured.items() if figure in metrics}
            for figure in figures
        }
        curves(task.plot, panels, horizontal="step")
    if task.csv is not None:
        _write_table(task.csv, measured, figures)
    for path in filter(None, (task.plot, task.csv)):
        activity.say(f"{path}: {len(figures)} figures of {len(measured)} runs.")


def _write_table(path: Path, measured: Mapping[str, Metrics], figures: Sequence[str]) -> None:
    """Columns run, step and the figures; a figure that was not measured at a step has an empty cell."""
    with disk_errors(path), path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["run", "step", *figures])
        for name, metrics in measured.items():
            columns = [dict(metrics.get(figure, ())) for figure in figures]
            for step in sorted({step for column in columns for step in column}):
                table.writerow([name, step, *(column.get(step, "") for column in columns)])


def read_metrics(path: Path) -> Metrics:
    """{figure: [(step, value), …]}, ordered by step.

    A killed and resumed run has measured some steps twice, of which the last counts; its last line may be incomplete.
    Raises RealmError if there is no such file.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise RealmError(f"{path}: {error.strerror}; a training leaves it in the folder of --run.") from None
    values: dict[str, dict[float, float]] = {}
    for number, line in enumerate(lines, 1):
        try:
            row = parse_json(line)
            step = row.pop("step")
            del row["time"]
            if type(step) not in (int, float):
                raise ValueError
        except (RealmError, ValueError, KeyError, AttributeError, TypeError):
            if number == len(lines):
                continue
            raise RealmError(f"{path}, line {number}: not a row of metrics.") from None
        for figure, value in row.items():
            if isinstance(value, int | float):
                values.setdefault(figure, {})[step] = value
    return {figure: sorted(by_step.items()) for figure, by_step in values.items()}
