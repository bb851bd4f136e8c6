"""The result of a job, prepared for the page: the table of an ablation, the figures of other kinds.

Records that a job made have pages of their own; this is the rest of its result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from django.contrib.humanize.templatetags.humanize import intcomma
from django.template.defaultfilters import filesizeformat

from realm_core.runs.activity import duration
from webapp.models import Job, JobKind
from webapp.templatetags.numbers import percent, seconds

_COLUMNS: Final = ("exact_match", "zero_shot_recall@5")


def ablation(job: Job) -> dict[str, Any] | None:
    """The table of an ablation, as the paper's table 2; None if there is none yet, and for other kinds.

    sets: name and number of questions of each question set. rows: title, retrieval utility ("–" without
    pre-training) and cells, for each set exact match and zero-shot recall at 5: a value, and whether it is the largest
    of all rows. seeds: of which the values are means. stages: name, budget and time, "" if unknown.
    """
    result = job.result
    if job.kind != JobKind.ABLATE or not result:
        return None
    sets = [(name, asked) for name, asked in result["questions"]]
    columns = [(column, dev) for dev, _ in sets for column in _COLUMNS]
    best = {(column, dev): max(row[column][dev] for row in result["rows"]) for column, dev in columns}
    several = len(result["rows"]) > 1

    def cell(value: float, largest: float) -> dict[str, Any]:
        return {"value": value, "best": several and value == largest > 0}

    return {
        "sets": sets,
        "rows": [
            {
                "title": row["title"],
                "cells": [cell(row[column][dev], best[column, dev]) for column, dev in columns],
                "utility": "–"
                if row.get("utility") is None
                else f"{row['utility']:.2f}".replace("-", "\N{MINUS SIGN}"),
            }
            for row in result["rows"]
        ],
        "seeds": max(len(row.get("seeds", ())) for row in result["rows"]),
        "stages": [
            {**one, "took": "" if one["seconds"] is None else duration(one["seconds"])} for one in result["stages"]
        ],
    }


# Figures of a result that pages show, with their formatting, except those that the record's own page shows.
_NAMED: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "articles": ("Articles", intcomma),
    "blocks": ("Blocks", intcomma),
    "count": ("Spans", intcomma),
    "bytes": ("Size", filesizeformat),
    "ece": ("Expected calibration error", percent),
    "ms_per_question": ("Time for a question", seconds),
    "answered_none": ("Of its questions without an answer, answered", percent),
}
# Labels of held-out figures, if their name is not enough, and prefixes of the names of shares.
_CALLED: Final[Mapping[str, str]] = {
    "accuracy_without": "accuracy without retrieval",
    "log_likelihood_without": "log likelihood without retrieval",
    "null_share": "prior of the null block",
    "span": "best span is right",
    "utility": "retrieval utility",
    "utility_best": "retrieval utility of the best block",
}
_PRETRAIN, _INDEX_STEP = "pretrain", "pretrain.index_step"  # the kind, and the metric that names a new index
_SHARES: Final = ("accuracy", "null_share", "recall@", "span")


def figures(job: Job) -> list[tuple[str, str]]:
    """(label, value) of the figures in a job's row."""
    named = [(name, write(job.result[key])) for key, (name, write) in _NAMED.items() if key in job.result]
    right: dict[str, float] = job.result.get("answered_right") or {}
    named += [(f"Answered right, {name}", percent(share)) for name, share in sorted(right.items())]
    held_out: dict[str, float] = job.result.get("held_out") or {}
    questions, passages, of = job.result.get("questions"), job.result.get("passages"), "Held out"
    if isinstance(questions, dict):  # an ablation has a list
        named.append(("Questions learnt", f"{questions['learnt']:,} of {questions['given']:,}"))
        named += [(f"Learnt from {name}", _learnt(counts)) for name, counts in questions.get("sets", {}).items()]
        of = f"{questions['held_out']:,} held out"
    if passages:
        named.append(("Passages learnt from", intcomma(passages["learnt"])))
        of = f"{passages['held_out']:,} held out"
    if job.result and not held_out and job.parameters.get("holdout"):
        named.append(("Held out", "none: the share of so few came to none, and nothing was measured"))
    if job.kind == _PRETRAIN and job.result and job.parameters.get("refresh") != "never":
        named.append(("Index replaced while it was trained", _times_replaced(job)))
    in_order = sorted(held_out.items(), key=lambda one: _in_order(one[0]))
    return named + [(f"{of}: {_label(name)}", _formatted(name, value)) for name, value in in_order]


def _learnt(counts: Mapping[str, int]) -> str:
    """How many questions of a set were learnt; of a small set, how many the model had right before, and has now."""
    text = f"{counts['learnt']:,} of {counts['given']:,}"
    if counts["held_out"]:
        text += f", {counts['held_out']:,} held out"
    if "right_after" in counts:
        text += f"; right before: {counts['right_before']:,}, now: {counts['right_after']:,}"
    return text


def _in_order(name: str) -> list[tuple[int, str]]:
    """recall@5 before recall@20."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def _times_replaced(job: Job) -> str:
    """How often a pre-training went on with a newer index; with none it learnt from the first one alone."""
    rows = job.metrics.filter(values__has_key=_INDEX_STEP).values_list("values", flat=True)
    times = len({row[_INDEX_STEP] for row in rows})  # a resumed training names the present one again
    return "never" if not times else "once" if times == 1 else f"{times:,} times"


def _label(name: str) -> str:
    """span.plain-train → "best span is right, plain-train"."""
    figure, _, questions = name.partition(".")
    return _CALLED.get(figure, figure.replace("_", " ")) + (f", {questions}" if questions else "")


def _formatted(name: str, value: float) -> str:
    if name.startswith(_SHARES):
        return percent(value)
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}").replace("-", "\N{MINUS SIGN}")
