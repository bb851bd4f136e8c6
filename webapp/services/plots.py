"""What jobs and evaluations measured, as SVG images that follow the reader's light or dark theme.

Metric rows are only ever added, so what was read of a job is kept in memory and a look costs the new rows alone; a
drawing is made once for each last row, however many people look.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from webapp.models import JobMetric

Points = Sequence[tuple[float, float]]

_JOBS_REMEMBERED: Final = 32
_DRAWINGS_KEPT: Final = 256
_MOST_POINTS: Final = 400  # of a line; more than the image has pixels to show
_INCHES: Final = (4.8, 2.5)


@dataclass(frozen=True)
class Panel:
    """One diagram. lines: (figure, what it is called) of each line that it may have; unit: behind its numbers."""

    slug: str
    title: str
    lines: tuple[tuple[str, str], ...]
    unit: str = ""
    share: bool = False  # from 0 to 1, written as per cent
    along: str = "step"  # what is counted from left to right


PANELS: Final = (
    Panel("loss", "Loss", (("loss", "training"), ("held_out.loss", "held out"))),
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
    ),
    Panel("null-share", "Prior of the null block", (("null_share", "training"), ("held_out.null_share", "held out"))),
    Panel("best-span", "Best span is right, held out", (("held_out.span", "best span is right"),), share=True),
    Panel(
        "recall",
        "Recall, held out",
        tuple((f"held_out.recall@{k}", f"recall@{k}") for k in (1, 5, 20)),
        share=True,
    ),
    Panel("lag", "Steps that the index is behind", (("index_lag_steps", "lag"),), "steps"),
    Panel("lag-seconds", "Age of the index’s parameters", (("index_lag_s", "age"),), "s"),
    Panel("speed", "Sequences a second", (("sequences_per_s", "speed"),)),
    Panel(
        "losses",
        "Parts of the loss",
        (("retriever_loss", "retriever"), ("reader_loss", "reader"), ("pair_loss", "pairs")),
    ),
    Panel(
        "so-far",
        "Of the questions so far",
        (("exact_match", "exact match"), ("recall@5", "recall@5")),
        share=True,
        along="questions",
    ),
    Panel("answerable", "Questions with a right block among those read", (("answerable", "training"),), share=True),
)
# Of trainings that do not retrieve.
_ALONE: Final = Panel("accuracy", "Accuracy", (("accuracy", "training"), ("held_out.accuracy", "held out")), share=True)


@dataclass(frozen=True)
class Curve:
    """A panel with its points. at: the last metric row that it knows; now: the last value of each line, as text."""

    panel: Panel
    lines: Mapping[str, Points]
    at: int
    now: tuple[tuple[str, str], ...]


@dataclass
class _Read:
    """What was read of a job: {figure: {step: value}} up to the row `at`."""

    at: int = 0
    figures: dict[str, dict[float, float]] = field(default_factory=dict)


_memory: OrderedDict[UUID, _Read] = OrderedDict()
_memory_lock = threading.Lock()
_drawing = threading.Lock()  # matplotlib's settings are one for all threads


def curves(job_id: UUID) -> list[Curve]:
    """The panels for which a job has measured something."""
    at, figures = _figures(job_id)
    found = []
    for panel in PANELS:
        if panel.slug == "accuracy" and "accuracy_without" not in figures:
            panel = _ALONE
        lines = {name: sorted(figures[key].items()) for key, name in panel.lines if key in figures}
        if lines:
            now = tuple((name, _written(points[-1][1], panel)) for name, points in lines.items())
            found.append(Curve(panel, lines, at, now))
    return found


def curve_svg(job_id: UUID, slug: str) -> str | None:
    """One panel of a job as SVG; None where it has measured nothing of the kind."""
    for curve in curves(job_id):
        if curve.panel.slug == slug:
            return _curve_svg(curve.panel, tuple((name, tuple(_thinned(line))) for name, line in curve.lines.items()))
    return None


def _figures(job_id: UUID) -> tuple[int, dict[str, dict[float, float]]]:
    """(the last row's id, {figure without its stage: {step: value}}); a step measured again has its last value."""
    with _memory_lock:
        read = _memory.setdefault(job_id, _Read())
        _memory.move_to_end(job_id)
        while len(_memory) > _JOBS_REMEMBERED:
            _memory.popitem(last=False)
        rows = JobMetric.objects.filter(job_id=job_id, pk__gt=read.at).order_by("pk")
        for pk, step, values in rows.values_list("pk", "step", "values"):
            read.at = pk
            for name, value in values.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    figure = name.partition(".")[2] or name
                    read.figures.setdefault(figure, {})[float(step)] = float(value)
        return read.at, {name: dict(by_step) for name, by_step in read.figures.items()}


def _thinned(points: Points) -> list[tuple[float, float]]:
    """At most `_MOST_POINTS`, each the mean of its neighbours."""
    size = -(-len(points) // _MOST_POINTS)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def _written(value: float, panel: Panel) -> str:
    if panel.share:
        return f"{100 * value:.1f}\N{NO-BREAK SPACE}%"
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text}\N{NO-BREAK SPACE}{panel.unit}".rstrip().replace("-", "\N{MINUS SIGN}")


# ---- drawing

# Drawn with these colours; in the image each becomes a variable, which has a value for light and one for dark.
_COLOURS: Final = {
    "ink": ("#010101", "#1d1f21", "#e8e6e1"),
    "soft": ("#020202", "#585b60", "#a9acb0"),
    "rule": ("#030303", "#dfdcd4", "#33383e"),
    # Told apart by those who do not see all colours, too (after Okabe and Ito).
    "line-0": ("#040404", "#17585f", "#86c9c6"),
    "line-1": ("#050505", "#c4500a", "#f5a05f"),
    "line-2": ("#060606", "#7a5195", "#c8a6e0"),
    "line-3": ("#070707", "#8a6d00", "#e3c65a"),
}
_DRAWN: Final = {name: drawn for name, (drawn, _, _) in _COLOURS.items()}
_DASHES: Final[tuple[Any, ...]] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))


@lru_cache(maxsize=_DRAWINGS_KEPT)
def _curve_svg(panel: Panel, lines: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]) -> str:
    with _drawing, _figure() as (axes, done):
        for number, (name, points) in enumerate(lines):
            # A single measure is a point, which a line alone would not show.
            axes.plot(
                *zip(*points, strict=True),
                marker="o" if len(points) == 1 else "",
                markersize=4,
                color=_DRAWN[f"line-{number % 4}"],
                linestyle=_DASHES[number % 4],
                linewidth=1.6,
                label=name,
            )
        axes.set_xlabel(panel.along, loc="right")
        if panel.share:
            from matplotlib.ticker import PercentFormatter

            axes.yaxis.set_major_formatter(PercentFormatter(1, symbol="\N{NO-BREAK SPACE}%"))
        elif panel.unit:
            axes.set_ylabel(panel.unit)
        if len(lines) > 1:
            axes.figure.legend(loc="outside lower center", ncols=min(len(lines), 2), frameon=False)
        return done()


@lru_cache(maxsize=_DRAWINGS_KEPT)
def bars_svg(bars: tuple[tuple[str, float], ...]) -> str:
    """Shares from 0 to 1, a bar each, with their numbers."""
    from matplotlib.ticker import PercentFormatter

    with _drawing, _figure() as (axes, done):
        names, values = zip(*bars, strict=True)
        places = range(len(bars))
        axes.bar(places, values, 0.6, color=_DRAWN["line-0"])
        axes.set_xticks(list(places), names)
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1, symbol="\N{NO-BREAK SPACE}%"))
        for place, value in zip(places, values, strict=True):
            axes.annotate(
                f"{100 * value:.1f}", (place, value), (0, 3), textcoords="offset points", ha="center", fontsize=9
            )
        return done()


@lru_cache(maxsize=_DRAWINGS_KEPT)
def reliability_svg(bins: tuple[tuple[float, float, float, float], ...]) -> str:
    """Calibration: (low, high, mean probability, share right) of each bin that holds something."""
    from matplotlib.ticker import PercentFormatter

    with _drawing, _figure() as (axes, done):
        axes.plot([0, 1], [0, 1], color=_DRAWN["soft"], linewidth=1, linestyle=(0, (4, 3)))
        for low, high, mean, right in bins:
            axes.bar((low + high) / 2, right, (high - low) * 0.9, color=_DRAWN["rule"])
            axes.plot(mean, right, "o", color=_DRAWN["line-0"], markersize=5)
        axes.set(xlim=(0, 1), ylim=(0, 1.03), ylabel="share that is right")
        axes.set_xlabel("probability of the answer", loc="right")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1, symbol="\N{NO-BREAK SPACE}%"))
        return done()


@contextmanager
def _figure() -> Iterator[tuple[Any, Callable[[], str]]]:
    """(axes to draw on, what gives the finished SVG)."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none",  # texts stay texts
        "svg.hashsalt": "realm",  # the same figures give the same file
        "font.family": "sans-serif",
        "font.size": 9,
        "text.color": _DRAWN["ink"],
        "axes.labelcolor": _DRAWN["soft"],
        "axes.edgecolor": _DRAWN["soft"],
        "xtick.color": _DRAWN["soft"],
        "ytick.color": _DRAWN["soft"],
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=_INCHES, layout="constrained")
        axes = figure.subplots()
        axes.grid(axis="y", color=_DRAWN["rule"], linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)

        def done() -> str:
            written = io.StringIO()
            figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
            return _themed(written.getvalue())

        yield axes, done


def _themed(svg: str) -> str:
    """The drawing with variables for its colours: an image follows the theme of whoever looks at it."""
    for name, drawn in _DRAWN.items():
        svg = svg.replace(drawn, f"var(--{name})")
    light = " ".join(f"--{name}: {value};" for name, (_, value, _) in _COLOURS.items())
    dark = " ".join(f"--{name}: {value};" for name, (_, _, value) in _COLOURS.items())
    themes = f"svg {{ {light} }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }} text {{ {_FONT} }}"
    return svg.replace("</style>", f" {themes}</style>", 1)


_FONT: Final = "font-family: system-ui, sans-serif !important;"
