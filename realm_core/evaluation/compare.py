"""Tables of several evaluations: `python -m realm_core compare PREDICTIONS…`, in Markdown.

Each file of predictions describes its evaluation, and figures, table and significance follow from it. There is one
table per question set, with one row per run; every run is compared with the first one of its table, on the same
questions. With more than one set, a table of exact match over all of them comes first. Runs with causes of right and
wrong answers (`evaluate --why`) get a table of these, and with `--why-plot` a diagram. `--coverage-plot` draws the
risk–coverage curves, a panel per question set.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError
from realm_core.evaluation.chart import check_plot, curves, stacked_bars
from realm_core.evaluation.figures import COVERAGE, RECALL_AT, Figures, summarise
from realm_core.evaluation.predictions import CODE, Header, Prediction, read_header, read_predictions
from realm_core.evaluation.significance import Difference, paired_difference
from realm_core.evaluation.tasks import Compare
from realm_core.runs.activity import Activity

_COMPARED: dict[str, Callable[[Prediction], bool]] = {
    "exact_match": lambda prediction: prediction.right,
    "recall@5": lambda prediction: prediction.found_within(5),
}
_OF_DENSE = ("spelling", "lexical_weight")  # options that BM25 has not
_SHORT = {"exact_match": "EM", "recall@5": "R@5"}  # in tables


def main(task: Compare, activity: Activity) -> None:
    for plot in filter(None, (task.why_plot, task.coverage_plot)):
        check_plot(plot)
    runs = [Run.of(path) for path in task.predictions]
    bars = _bars(runs) if task.why_plot else {}
    print(markdown(runs))
    if task.why_plot and bars:
        stacked_bars(task.why_plot, bars, horizontal="share of the questions")
    if task.coverage_plot:
        curves(task.coverage_plot, _covered(runs), horizontal="% of the questions, the most confident first")
    activity.result(
        {
            "runs": [
                {"path": str(run.path), "label": label, **run.figures.as_dict(), "of": run.header.identity}
                for run, label in zip(runs, labels(runs), strict=True)
            ],
            "differences": [
                {"first": str(first.path), "second": str(second.path), "figure": figure}
                | dataclasses.asdict(second.against(first, figure))
                for first, second in _compared(runs)
                for figure in _COMPARED
            ],
        }
    )


@dataclass(frozen=True)
class Run:
    """One finished evaluation."""

    path: Path
    header: Header
    figures: Figures

    @classmethod
    def of(cls, path: Path) -> Run:
        """The figures of a file of predictions; `RealmError` if it is none, or not complete."""
        return cls(path, read_header(path), summarise(read_predictions(path)))

    @property
    def asked(self) -> tuple[str, int]:
        """Hash of the questions, and how many of them were asked; equal for runs that can be compared."""
        return self.header.identity["questions"], self.header.n

    def against(self, first: Run, figure: str) -> Difference:
        """A figure of this run (exact_match or recall@5) minus that of another on the same questions."""
        holds = _COMPARED[figure]
        return paired_difference(
            (holds(one), holds(other))
            for one, other in zip(read_predictions(first.path), read_predictions(self.path), strict=True)
        )


def labels(runs: Sequence[Run]) -> list[str]:
    """Names of the runs: the model, and those options that differ between the runs."""
    all_names = dict.fromkeys(name for run in runs for name in run.header.identity)
    names = [name for name in all_names if name not in ("questions", "sample", "why", CODE)]
    differing = [name for name in names if len({str(run.header.identity.get(name)) for run in runs}) > 1]
    models = {(run.header.model, run.header.identity["model"]) for run in runs}
    if len({model for model, _ in models}) == len(models):
        differing = [name for name in differing if name != "model"]  # the run's name has it
    if "retriever" in differing:  # which implies the index
        differing = [name for name in differing if name != "index"]
    return [", ".join([run.header.model, *_options(run.header.identity, differing)]) for run in runs]


def markdown(runs: Sequence[Run]) -> str:
    sets: dict[tuple[str, int], list[int]] = defaultdict(list)
    for number, run in enumerate(runs):
        sets[run.asked].append(number)
    called = labels(runs)
    tables = [_overview(runs, called, list(sets.values()))] if len(sets) > 1 else []
    for members in sets.values():
        tables.append(_table([runs[i] for i in members], [called[i] for i in members]))
        explained = [i for i in members if runs[i].figures.causes is not None]
        if explained:
            tables.append(_causes([runs[i] for i in explained], [called[i] for i in explained]))
    return "\n\n".join(tables)


def _options(identity: dict[str, Any], names: Sequence[str]) -> list[str]:
    shown = []
    for name in names:
        value = identity.get(name, 0.0)  # without a weight, that is none
        if name in _OF_DENSE and identity["retriever"] != "dense":
            continue
        if name == "retriever":
            shown.append(str(value))
        elif name == "spelling":
            shown += [] if value else ["as typed"]
        elif name != "score_scale" or identity["retriever"] != "dense":  # dense scores are never scaled
            shown.append(f"{name.replace('_', ' ')} {value:g}" if isinstance(value, float) else f"{name} {value}")
    return shown


def _overview(runs: Sequence[Run], called: Sequence[str], sets: Sequence[Sequence[int]]) -> str:
    matches: dict[str, dict[int, str]] = defaultdict(dict)
    for column, members in enumerate(sets):
        for i in members:
            matches[called[i]][column] = _percent(runs[i].figures.exact_match)
    rows = [[label, *(cells.get(column, "") for column in range(len(sets)))] for label, cells in matches.items()]
    return "Exact match, %\n\n" + markdown_table(
        ["run", *(f"{runs[members[0]].header.questions} ({runs[members[0]].figures.n:,})" for members in sets)], rows
    )


def _table(runs: Sequence[Run], called: Sequence[str]) -> str:
    compared, some_unanswerable = len(runs) > 1, runs[0].figures.unanswerable > 0
    rows = []
    for run, label in zip(runs, called, strict=True):
        figures = run.figures
        row = [
            label,
            _percent(figures.exact_match),
            *(_percent(figures.recall[k]) for k in RECALL_AT),
            f"{figures.ece:.3f}",
            f"{figures.ms:.1f}",
        ]
        if compared:
            for figure in _COMPARED:
                row += ["", ""] if run is runs[0] else _significance(run.against(runs[0], figure))
        if some_unanswerable:
            row.insert(2, _percent(figures.answered_unanswerable or 0.0))
        rows.append(row)
    differences = [column for name in _SHORT.values() for column in (f"{name} − first [95 %]", "p")]
    answered = [f"answered of {runs[0].figures.unanswerable:,} without an answer, %"] if some_unanswerable else []
    columns = ["run", "EM %", *answered, *(f"R@{k} %" for k in RECALL_AT), "ECE", "ms"]
    first = runs[0]
    return f"{first.header.questions}, {first.figures.n:,} questions\n\n" + markdown_table(
        columns + (differences if compared else []), rows
    )


def _causes(runs: Sequence[Run], called: Sequence[str]) -> str:
    shares = [[count / run.figures.n for count in (run.figures.causes or {}).values()] for run in runs]
    rows = [[label, *map(_percent, run_shares)] for label, run_shares in zip(called, shares, strict=True)]
    causes = runs[0].figures.causes or {}  # the same in all runs, as the questions are the same
    return "Why, %\n\n" + markdown_table(["run", *(cause.replace("_", " ") for cause in causes)], rows)


def _bars(runs: Sequence[Run]) -> dict[str, dict[str, int]]:
    """{label of the bar: {cause: questions}}; `RealmError` for a run without causes."""
    bars: dict[str, dict[str, int]] = {}
    for run, label in zip(runs, labels(runs), strict=True):
        if run.figures.causes is None:
            raise RealmError(f"{run.path} has no causes of right and wrong answers; evaluate without --no-why.")
        name = f"{label}\n{run.header.questions} ({run.figures.n:,})"
        # Two files may belong to the same evaluation.
        bars[name if name not in bars else f"{name}\n{run.path}"] = run.figures.causes
    return bars


def _covered(runs: Sequence[Run]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """{title of the panel: {label of the line: [(% of the questions, % of them right), …]}}."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(dict)
    for run, label in zip(runs, labels(runs), strict=True):
        points = [(100 * share, 100 * right) for share, right in zip(COVERAGE, run.figures.covered, strict=True)]
        panels[f"{run.header.questions} ({run.figures.n:,}), % right"][label] = points
    return panels


def _significance(difference: Difference) -> list[str]:
    points = [f"{100 * value:+.1f}" for value in (difference.difference, difference.low, difference.high)]
    return [f"{points[0]} [{points[1]}, {points[2]}]", f"{difference.p:.2g}"]


def _compared(runs: Sequence[Run]) -> list[tuple[Run, Run]]:
    """(first run of its table, another run) for every run that is not the first."""
    first: dict[tuple[str, int], Run] = {}
    pairs = [(first.setdefault(run.asked, run), run) for run in runs]
    return [(one, other) for one, other in pairs if one is not other]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first column is text and whose others are numbers."""
    lines = [columns, ["---", *("---:" for _ in columns[1:])], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
