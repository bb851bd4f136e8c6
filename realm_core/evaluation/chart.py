"""Diagrams as SVG: reliability of probabilities, curves, shares of a whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from realm_core.errors import RealmError
from realm_core.evaluation.calibration import Bin
from realm_core.files import replaced

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_INK, _GREY, _BLUE, _PALE = "#1f2933", "#6b7785", "#2563a8", "#c9d6e6"
# Distinguishable with colour blindness, too (Okabe and Ito's palette without its yellow).
_LINES = ["#2563a8", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
_BAR_WIDTH = 0.92  # of a bin
_ROOM = 0.04  # smallest share of a bar with room for a percentage


def svg_style(*, ink: str, labels: str, edges: str, size: int) -> dict[Any, Any]:
    """matplotlib's settings for an SVG: the colours of texts, of axes' labels and of their edges; the size of texts."""
    return {
        "svg.fonttype": "none",  # texts stay texts
        "svg.hashsalt": "realm",  # the same figures give the same file
        "font.family": "sans-serif",
        "font.size": size,
        "text.color": ink,
        "axes.edgecolor": edges,
        "axes.labelcolor": labels,
        "xtick.color": labels,
        "ytick.color": labels,
    }


def draw_line(axes: Axes, points: Sequence[tuple[float, float]], **look: Any) -> Line2D:
    """A curve. A single measurement is a point, which a line alone would not show."""
    (drawn,) = axes.plot(*zip(*points, strict=True), marker="o" if len(points) == 1 else "", **look)
    return drawn


def draw_reliability(
    axes: Axes, bins: Iterable[tuple[float, float, float, float]], *, diagonal: str, dot: str, **bars: Any
) -> None:
    """(low, high, mean probability, share right) of each non-empty bin, and the diagonal of calibrated probabilities.

    diagonal, dot: colours. bars: the look of the bars (ids `right-N`), at each of which is a dot (id `dot-N`).
    """
    axes.plot([0, 1], [0, 1], color=diagonal, linewidth=1, linestyle=(0, (4, 3)), label="calibrated")
    for number, (low, high, mean, right) in enumerate(bins):
        (bar,) = axes.bar((low + high) / 2, right, (high - low) * _BAR_WIDTH, **bars)
        bar.set_gid(f"right-{number}")
        (point,) = axes.plot(mean, right, "o", color=dot, markersize=5)
        point.set_gid(f"dot-{number}")
    axes.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="share right")


def check_plot(path: Path) -> None:
    """`RealmError` unless an SVG can be written to `path`: called before long work."""
    if path.suffix != ".svg":
        raise RealmError(f"{path}: the diagram is an SVG; its name must end in .svg.")
    if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        why = "it is a folder" if path.is_dir() else f"{path.parent} is no folder that can be written to"
        raise RealmError(f"{path}: the diagram cannot be written there, {why}.")


def reliability_diagram(path: Path, bins: Sequence[Bin], *, title: str, error: float) -> None:
    """Write the diagram to `path`.

    Above, for each non-empty bin, a bar (id `right-N`) as high as the share right and a dot (id `dot-N`) at its mean
    confidence, which is on the diagonal if the bin is calibrated; below, a bar (id `count-N`) with the number of its
    answers. `error` is the expected calibration error.
    """
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    with _drawing(path, (5.4, 6.2)) as figure:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        count = sum(row.count for row in bins)
        figure.suptitle(f"{title}\n{count:,} answers, expected calibration error {error:.3f}", fontsize=11)
        look: dict[str, Any] = {"color": _PALE, "edgecolor": _BLUE, "linewidth": 0.8}
        points = [(row.low, row.high, row.mean_probability, row.share_right) for row in bins]
        draw_reliability(above, points, diagonal=_GREY, dot=_BLUE, **look)
        for number, row in enumerate(bins):
            middle = (row.low + row.high) / 2
            (bar,) = below.bar(middle, row.count, (row.high - row.low) * _BAR_WIDTH, **look)
            bar.set_gid(f"count-{number}")
            below.annotate(
                f"{row.count:,}", (middle, row.count), (0, 2), textcoords="offset points", ha="center", fontsize=8
            )
        above.legend(loc="upper left", frameon=False)
        below.set(xlabel="confidence in the answer", ylabel="answers")
        below.margins(y=0.25)
        below.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        for axes in (above, below):
            axes.spines[["top", "right"]].set_visible(False)
        above.yaxis.set_major_formatter(PercentFormatter(1))
        below.xaxis.set_major_formatter(PercentFormatter(1))


def curves(path: Path, panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]], *, horizontal: str) -> None:
    """Write one diagram per panel, in rows of two: {title: {line: [(x, y), …]}}.

    A line (id `TITLE-N`, the N-th of all lines) has the same colour in every panel; if there are several, one legend
    names them. `horizontal` is the label of x.
    """
    lines = list(dict.fromkeys(line for panel in panels.values() for line in panel))
    colours = {line: _LINES[number % len(_LINES)] for number, line in enumerate(lines)}
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with _drawing(path, (4.6 * columns, 2.7 * rows + (0.4 if len(lines) > 1 else 0.0))) as figure:
        places = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes, (title, panel) in zip(places, panels.items(), strict=False):
            for line, points in panel.items():
                drawn = draw_line(axes, points, color=colours[line], linewidth=1.4, label=line)
                drawn.set_gid(f"{title}-{lines.index(line)}")
            axes.set_title(title, fontsize=10, loc="left")
            axes.set_xlabel(horizontal)
            axes.grid(axis="y", color=_PALE, linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        for axes in places[len(panels) :]:
            axes.set_axis_off()
        if len(lines) > 1:
            shown = {
                text: line for axes in places for line, text in zip(*axes.get_legend_handles_labels(), strict=True)
            }
            figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=4, frameon=False)


def stacked_bars(path: Path, bars: Mapping[str, Mapping[str, int]], *, horizontal: str) -> None:
    """Write bars of equal length, one below the other, divided into shares: {bar: {part: count}}.

    A share (id `share-N-PART`, bar N counted from 0) has the same colour in every bar, and its percentage if there is
    room. `horizontal` says what the shares are of.
    """
    from matplotlib.ticker import PercentFormatter

    parts = list(dict.fromkeys(part for bar in bars.values() for part in bar))
    with _drawing(path, (8.0, 1.3 + 0.55 * len(bars))) as figure:
        axes = figure.subplots()
        for number, bar in enumerate(bars.values()):
            total, before = sum(bar.values()), 0.0
            for part in parts:
                share = bar.get(part, 0) / total
                label = part.replace("_", " ") if number == 0 else None
                (drawn,) = axes.barh(
                    number, share, 0.7, before, color=_LINES[parts.index(part) % len(_LINES)], alpha=0.75, label=label
                )
                drawn.set_gid(f"share-{number}-{part}")
                if share >= _ROOM:
                    axes.text(before + share / 2, number, f"{share:.0%}", ha="center", va="center", fontsize=8)
                before += share
        axes.set_yticks(range(len(bars)), list(bars))
        axes.invert_yaxis()
        axes.set(xlim=(0, 1), xlabel=horizontal)
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper center", ncols=len(parts), frameon=False, fontsize=8)


@contextmanager
def _drawing(path: Path, inches: tuple[float, float]) -> Iterator[Figure]:
    """An empty figure, written to `path` after it was drawn on."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(svg_style(ink=_INK, labels=_INK, edges=_GREY, size=10)):
        figure = Figure(figsize=inches, facecolor="white", layout="constrained")
        yield figure
        with replaced(path, by_several=True) as temporary:
            figure.savefig(temporary, format="svg", facecolor="white", metadata={"Date": None})
