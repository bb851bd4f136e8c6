"""Diagrams as SVG images that follow the reader's light or dark theme; equal diagrams are drawn once."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from django.http import HttpResponse
from django.utils.cache import patch_cache_control

from realm_core.evaluation.chart import draw_line, draw_reliability, svg_style

HEIGHT: Final = 240  # of an image, in pixels; its width is 461
_INCH: Final = 96  # pixels
_WIDE: Final = 4.8  # inches
_FEW: Final = 4  # most lines whose legend fits into the usual height
_LEGEND: Final = 24  # additional pixels for a longer legend
_DRAWINGS_KEPT: Final = 256
_KEPT_S: Final = 24 * 3600  # by browsers: a diagram's address names the last row that it shows

_drawing = threading.Lock()  # matplotlib's settings are global

# Drawn with these colours; in the image each becomes a variable with one value for light and one for dark.
_COLOURS: Final = {
    "ink": ("#010101", "#1d1f21", "#e8e6e1"),
    "soft": ("#020202", "#585b60", "#a9acb0"),
    "rule": ("#030303", "#dfdcd4", "#33383e"),
    # Distinguishable with colour blindness, too (after Okabe and Ito).
    "line-0": ("#040404", "#17585f", "#86c9c6"),
    "line-1": ("#050505", "#c4500a", "#f5a05f"),
    "line-2": ("#060606", "#7a5195", "#c8a6e0"),
    "line-3": ("#070707", "#8a6d00", "#e3c65a"),
    "line-4": ("#080808", "#1f62b8", "#8db9f2"),
    "line-5": ("#090909", "#3b7a2a", "#96d083"),
    "line-6": ("#0a0a0a", "#b3246b", "#f494bd"),
    "line-7": ("#0b0b0b", "#4f5560", "#cdd1d6"),
}
_DRAWN: Final = {name: drawn for name, (drawn, _, _) in _COLOURS.items()}
_DASHES: Final[tuple[Any, ...]] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))


@dataclass(frozen=True)
class Series:
    """One line of a chart. style: a number that decides colour and dashes; eight are different."""

    name: str
    style: int
    points: tuple[tuple[float, float], ...]


def height(lines: int) -> int:
    """Height of an image with so many lines, in pixels."""
    return HEIGHT if lines <= _FEW else HEIGHT + _LEGEND


@lru_cache(maxsize=_DRAWINGS_KEPT)
def lines_svg(lines: tuple[Series, ...], *, along: str, unit: str = "", share: bool = False) -> str:
    """Line chart. along: label of x, which counts something. unit: of the values; share: they are from 0 to 1."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    with _drawing, _figure(height(len(lines))) as (axes, done):
        for line in lines:
            draw_line(
                axes,
                line.points,
                markersize=4,
                color=_DRAWN[f"line-{line.style % 8}"],
                # The second four have other neighbours than the first, for readers with colour blindness.
                linestyle=_DASHES[(line.style + line.style // 4) % 4],
                linewidth=1.6,
                label=line.name,
            )
        axes.set_xlabel(along, loc="right")
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        if share:
            axes.yaxis.set_major_formatter(PercentFormatter(1, symbol="\N{NO-BREAK SPACE}%"))
            low, high = axes.get_ylim()  # around equal values the limits lie outside 0 to 1
            room = 0.02 * (min(high, 1) - max(low, 0))  # for the line's width
            axes.set_ylim(max(low, -room), min(high, 1 + room))
        elif unit:
            axes.set_ylabel(unit)
        if len(lines) > 1:
            columns = 2 if len(lines) <= _FEW else 3
            axes.figure.legend(loc="outside lower center", ncols=columns, frameon=False)
        return done()


@lru_cache(maxsize=_DRAWINGS_KEPT)
def bars_svg(bars: tuple[tuple[str, float], ...]) -> str:
    """Bar chart of shares from 0 to 1, with their numbers."""
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
    """Calibration: (low, high, mean confidence, share right) of each non-empty bin."""
    from matplotlib.ticker import PercentFormatter

    with _drawing, _figure() as (axes, done):
        draw_reliability(axes, bins, diagonal=_DRAWN["soft"], dot=_DRAWN["line-0"], color=_DRAWN["rule"])
        axes.set_xlabel("confidence in the answer", loc="right")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1, symbol="\N{NO-BREAK SPACE}%"))
        return done()


def image(svg: str) -> HttpResponse:
    """An SVG whose address changes with its content, so browsers may cache it."""
    response = HttpResponse(svg, content_type="image/svg+xml; charset=utf-8")
    patch_cache_control(response, private=True, max_age=_KEPT_S, immutable=True)
    return response


@contextmanager
def _figure(height: int = HEIGHT) -> Iterator[tuple[Any, Callable[[], str]]]:
    """(axes to draw on, a function that returns the finished SVG)."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    soft = _DRAWN["soft"]
    with mpl.rc_context(svg_style(ink=_DRAWN["ink"], labels=soft, edges=soft, size=9)):
        figure = Figure(figsize=(_WIDE, height / _INCH), layout="constrained")
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
    """The drawing with variables for its colours, so that the image follows the viewer's theme."""
    for name, drawn in _DRAWN.items():
        svg = svg.replace(drawn, f"var(--{name})")
    light = " ".join(f"--{name}: {value};" for name, (_, value, _) in _COLOURS.items())
    dark = " ".join(f"--{name}: {value};" for name, (_, _, value) in _COLOURS.items())
    themes = f"svg {{ {light} }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }} text {{ {_FONT} }}"
    return svg.replace("</style>", f" {themes}</style>", 1)


_FONT: Final = "font-family: system-ui, sans-serif !important;"
