"""The reliability diagram as an SVG: how often answers of each probability are right, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from realm_core.evaluation.calibration import Bin
from realm_core.files import disk_errors

_INK, _GREY, _BLUE, _PALE = "#1f2933", "#6b7785", "#2563a8", "#c9d6e6"
# Texts stay texts, and the same figures give the same file.
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "reliability",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _GREY,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def reliability_diagram(path: Path, bins: Sequence[Bin], *, title: str, error: float) -> None:
    """Write the diagram to `path`.

    Above, for each bin that holds something, a bar (id `right-N`) as high as the share that is right and a dot
    (id `dot-N`) at its mean probability, on the diagonal if it is calibrated; below, a bar (id `count-N`) with the
    number of its answers. `error` is the expected calibration error.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(5.4, 6.2), facecolor="white", layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        count = sum(row.count for row in bins)
        figure.suptitle(f"{title}\n{count:,} answers, expected calibration error {error:.3f}", fontsize=11)
        above.plot([0, 1], [0, 1], color=_GREY, linewidth=1, linestyle=(0, (4, 3)), label="calibrated")
        for number, row in enumerate(bins):
            middle, width = (row.low + row.high) / 2, (row.high - row.low) * 0.92
            (bar,) = above.bar(middle, row.share_right, width, color=_PALE, edgecolor=_BLUE, linewidth=0.8)
            bar.set_gid(f"right-{number}")
            (dot,) = above.plot(row.mean_probability, row.share_right, "o", color=_BLUE, markersize=5)
            dot.set_gid(f"dot-{number}")
            (bar,) = below.bar(middle, row.count, width, color=_PALE, edgecolor=_BLUE, linewidth=0.8)
            bar.set_gid(f"count-{number}")
            below.annotate(
                f"{row.count:,}", (middle, row.count), (0, 2), textcoords="offset points", ha="center", fontsize=8
            )
        above.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="share that is right")
        above.legend(loc="upper left", frameon=False)
        below.set(xlabel="probability of the answer", ylabel="answers")
        below.margins(y=0.25)
        below.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        for axes in (above, below):
            axes.spines[["top", "right"]].set_visible(False)
        above.yaxis.set_major_formatter(PercentFormatter(1))
        below.xaxis.set_major_formatter(PercentFormatter(1))
        with disk_errors(path):
            figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None})
