"""Metrics of jobs, as curves.

A job's panel has a line per figure. Figures of an ablation are compared between the rows that have the same stage:
each figure has a panel with a line per row, which has the same style in all panels.

Metric rows are only appended, so the rows of a job are cached in memory and an update reads only new ones; a drawing is
cached by its last row, however many people look at it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from cachetools import LRUCache

from realm_core.tasks import JOBS
from realm_core.training.ablation import ROWS, ZERO_SHOT, ZERO_SHOT_TITLE
from webapp.models import JobMetric
from webapp.pages import drawing

Points = Sequence[tuple[float, float]]

_JOBS_REMEMBERED: Final = 32
_MOST_POINTS: Final = 400  # per line; more than the image has pixels


@dataclass(frozen=True)
class Panel:
    """One diagram. lines: (figure, label) of each possible line; unit: of its numbers.

    compared: (figure, title) of the compared figures; by default the first line.
    """

    slug: str
    title: str
    lines: tuple[tuple[str, str], ...]
    unit: str = ""
    share: bool = False  # from 0 to 1, shown in per cent
    along: str = "step"  # label of the x axis
    compared: tuple[tuple[str, str], ...] = ()

    def comparing(self) -> Iterator[Panel]:
        """A panel for each compared figure."""
        for number, (figure, title) in enumerate(self.compared or ((self.lines[0][0], self.title),)):
            slug = f"{self.slug}-{number}" if number else self.slug
            yield replace(self, slug=slug, title=title, lines=((figure, title),), compared=())


PANELS: Final = (
    Panel(
        "loss",
        "Loss",
        (("loss", "training"), ("held_out.loss", "held out")),
        compared=(("loss", "Loss, training"), ("held_out.loss", "Loss, held out")),
    ),
    Panel(
        "accuracy",
        "Masked wordpieces that are right",
        (
            ("accuracy", "with retrieval"),
            ("accuracy_without", "without"),
            ("held_out.accuracy", "held out, with"),
            ("held_out.accuracy_without", "held out, without"),
        ),
        share=True,
    ),
    Panel(
        "utility",
        "Retrieval utility",
        (
            ("utility", "mean of the blocks"),
            ("utility_best", "best block"),
            ("held_out.utility", "held out, mean"),
            ("held_out.utility_best", "held out, best"),
        ),
        "nats",
        compared=(("utility", "Retrieval utility, mean of the blocks"),),
    ),
    Panel("null-share", "Prior of the null block", (("null_share", "training"), ("held_out.null_share", "held out"))),
    Panel("best-span", "Best span is right, held out", (("held_out.span", "best span is right"),), share=True),
    Panel(
        "recall",
        "Recall, held out",
        tuple((f"held_out.recall@{k}", f"recall@{k}") for k in (1, 5, 20)),
        share=True,
        compared=(("held_out.recall@5", "Recall@5, held out"),),
    ),
    Panel("lag", "Steps that the index is behind", (("index_lag_steps", "lag"),), "steps"),
    Panel("lag-seconds", "Age of the index’s parameters", (("index_lag_s", "age"),), "s"),
    Panel("speed", "Sequences a second", (("sequences_per_s", "speed"),)),
    Panel("gradient", "Gradient’s norm, before it is limited", (("gradient_norm", "norm"),)),
    Panel(
        "losses",
        "Parts of the loss",
        (("retriever_loss", "retriever"), ("reader_loss", "reader"), ("pair_loss", "pairs")),
        compared=(
            ("retriever_loss", "Retriever’s part of the loss"),
            ("reader_loss", "Reader’s part of the loss"),
        ),
    ),
    Panel(
        "so-far",
        "Of the questions so far",
        (("exact_match", "exact match"), ("recall@5", "recall@5")),
        share=True,
        along="questions",
        compared=(("exact_match", "Exact match so far"), ("recall@5", "Recall@5 so far")),
    ),
    Panel("answerable", "Questions with a right block among those read", (("answerable", "training"),), share=True),
)
# For trainings without retrieval.
_ALONE: Final = Panel("accuracy", "Accuracy", (("accuracy", "training"), ("held_out.accuracy", "held out")), share=True)

# Stages of an ablation, as headings.
_STAGE_TITLES: Final = {kind: task.title for kind, task in JOBS.items()} | {ZERO_SHOT: ZERO_SHOT_TITLE}
_STYLES: Final = {row: number for number, row in enumerate(ROWS)}
_FIGURES: Final = {figure for panel in PANELS for figure, _ in panel.lines}


@dataclass(frozen=True)
class Curve:
    """A panel with its points.

    slug:   unique in the job. stage: the stage of the job, for people; "" if there is only one.
    at:     the last metric row that is included. now: the last value of each line, as text.
    named:  whether the names of the lines say more than the title. height: of the image, in pixels.
    """

    panel: Panel
    lines: Mapping[str, Points]
    at: int
    now: tuple[tuple[str, str], ...]
    slug: str
    stage: str
    styles: tuple[int, ...]
    named: bool
    height: int

    @classmethod
    def of(cls, panel: Panel, lines: Mapping[str, tuple[int, _Line]], slug: str, stage: str) -> Curve:
        """lines: (style, line) by name."""
        return cls(
            panel=panel,
            lines={name: line.points() for name, (_, line) in lines.items()},
            at=max(line.at for _, line in lines.values()),
            now=tuple((name, _formatted(line.last(), panel)) for name, (_, line) in lines.items()),
            slug=slug,
            stage=stage,
            styles=tuple(style for style, _ in lines.values()),
            named=list(lines) != [panel.lines[0][1]],
            height=drawing.height(len(lines)),
        )


@dataclass
class _Line:
    """A figure up to the row `at`; for a step that was measured again, the last value."""

    at: int = 0
    _by_step: dict[float, float] = field(default_factory=dict)
    _shown: list[tuple[float, float]] | None = None

    def add(self, at: int, step: float, value: float) -> None:
        self.at, self._shown = at, None
        self._by_step[step] = value

    def points(self) -> list[tuple[float, float]]:
        """At most as many as an image shows; cached until the line grows."""
        if self._shown is None:
            self._shown = _thinned(sorted(self._by_step.items()))
        return self._shown

    def last(self) -> float:
        return self._by_step[self.points()[-1][0]]


_Lines = dict[str, dict[str, _Line]]  # by row of the ablation ("" if there is none), by figure


@dataclass
class _Read:
    """The rows of a job that were read, up to `at`, by (stage, questions), both "" if it is no ablation."""

    at: int = 0
    stages: dict[tuple[str, str], _Lines] = field(default_factory=dict)


_memory: LRUCache[UUID, _Read] = LRUCache(maxsize=_JOBS_REMEMBERED)
_memory_lock = threading.Lock()


def curves(job_id: UUID) -> list[Curve]:
    """The panels with data of a job, stage by stage."""
    with _memory_lock:
        found: list[Curve] = []
        for number, ((stage, questions), by_row) in enumerate(_updated(job_id).stages.items()):
            title = ": ".join(filter(None, (_STAGE_TITLES.get(stage, stage), questions)))
            for panel, lines in _panels(by_row):
                if lines:
                    slug = f"{number}-{panel.slug}" if stage else panel.slug
                    found.append(Curve.of(panel, lines, slug, title))
        return found


def curve_svg(job_id: UUID, slug: str) -> str | None:
    """One panel of a job as SVG; None if it has no data for it."""
    for curve in curves(job_id):
        if curve.slug == slug:
            named = zip(curve.lines.items(), curve.styles, strict=True)
            lines = tuple(drawing.Series(name, style, tuple(points)) for (name, points), style in named)
            panel = curve.panel
            return drawing.lines_svg(lines, along=panel.along, unit=panel.unit, share=panel.share)
    return None


def _panels(by_row: _Lines) -> Iterator[tuple[Panel, dict[str, tuple[int, _Line]]]]:
    """Panels with their lines, (style, line) by name."""
    if "" in by_row:
        figures = by_row[""]
        for panel in PANELS:
            if panel.slug == "accuracy" and "accuracy_without" not in figures:
                panel = _ALONE
            named = [(name, figures[figure]) for figure, name in panel.lines if figure in figures]
            yield panel, {name: (style, line) for style, (name, line) in enumerate(named)}
        return
    rows = sorted(by_row, key=lambda row: (_style(row), row))
    for panel in (one for every in PANELS for one in every.comparing()):
        ((figure, _),) = panel.lines
        yield panel, {row: (_style(row), by_row[row][figure]) for row in rows if figure in by_row[row]}


def _style(row: str) -> int:
    """Of "realm" and, with another seed, "realm.2" the same; rows that are no more come last."""
    return _STYLES.get(row.partition(".")[0], len(_STYLES))


def _updated(job_id: UUID) -> _Read:
    read = _memory.setdefault(job_id, _Read())
    rows = JobMetric.objects.filter(job_id=job_id, pk__gt=read.at).order_by("pk")
    for pk, step, values in rows.values_list("pk", "step", "values"):
        read.at = pk
        stage, row, questions = (str(values.get(name, "")) for name in ("stage", "row", "questions"))
        figures = read.stages.setdefault((stage, questions), {}).setdefault(row, {})
        for name, value in values.items():
            figure = name.partition(".")[2] or name
            if figure in _FIGURES and isinstance(value, int | float) and not isinstance(value, bool):
                figures.setdefault(figure, _Line()).add(pk, float(step), float(value))
    return read


def _thinned(points: Points) -> list[tuple[float, float]]:
    """At most `_MOST_POINTS`, each the mean of neighbouring points."""
    size = -(-len(points) // _MOST_POINTS)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def _formatted(value: float, panel: Panel) -> str:
    if panel.share:
        return f"{100 * value:.1f}\N{NO-BREAK SPACE}%"
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text}\N{NO-BREAK SPACE}{panel.unit}".rstrip().replace("-", "\N{MINUS SIGN}")
