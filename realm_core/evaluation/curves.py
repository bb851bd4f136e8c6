"""Metrics of trainings by step, as one SVG.

`python -m realm_core curves RUN… --figures NAME… --plot FILE.svg`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from realm_core.errors import RealmError
from realm_core.evaluation.chart import check_plot, curves
from realm_core.evaluation.tasks import Curves
from realm_core.files import parse_json
from realm_core.runs.activity import Activity


def main(task: Curves, activity: Activity) -> None:
    """Draw one panel per figure, with a line for each run that has it."""
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
    panels = {
        figure: {name: metrics[figure] for name, metrics in measured.items() if figure in metrics}
        for figure in task.figures
    }
    curves(task.plot, panels, horizontal="step")
    activity.say(f"{task.plot}: {len(panels)} figures of {len(measured)} runs.")


def read_metrics(path: Path) -> Mapping[str, Sequence[tuple[float, float]]]:
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
