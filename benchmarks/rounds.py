"""Rounds: every contestant does the same work once a round, the order turning, so that a drift of the machine meets
all of them; figures are medians over the rounds, with the lowest and the highest."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")
Summary = dict[str, float]


def run_rounds(contestants: Mapping[str, Callable[[], Result]], rounds: int) -> dict[str, list[Result]]:
    """What each contestant returned in each round."""
    names = list(contestants)
    results: dict[str, list[Result]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            results[name].append(contestants[name]())
    return results


def apart(work: Callable[[], Result]) -> Result:
    """What `work` returns, done in a thread that ends.

    Each thread that computes has a team of OpenMP threads for as long as it lives; when a process has more of them than
    processors, none spins while it waits, and everything takes longer. A measurement must not inherit another's team,
    as little as a server does: it has one, its engine's.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(work).result()


def summary(values: Sequence[float]) -> Summary:
    """Median, lowest and highest."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def share_of_clusters(counts: Sequence[tuple[int, int]]) -> Summary:
    """The share of all clusters together, each (how many, of how many), and between what it is likely to lie.

    95 in 100 of what as many clusters drawn from these show: whatever is alike within a cluster counts once.
    """
    count_of = np.array(counts, dtype=float)
    drawn = np.random.default_rng(0).integers(len(counts), size=(10_000, len(counts)))
    totals = count_of[drawn].sum(axis=1)
    low, high = np.percentile(totals[:, 0] / totals[:, 1], (2.5, 97.5))
    count, of = count_of.sum(axis=0)
    return {"share": float(count / of), "low": float(low), "high": float(high)}


def ratios(theirs: Sequence[float], ours: Sequence[float]) -> Summary:
    """Theirs / ours, taken within each round: above one where ours is the faster."""
    return summary([their / our for their, our in zip(theirs, ours, strict=True)])


def latencies(times_ms: Sequence[float]) -> Summary:
    """p50 and p95 (nearest rank) of single questions, in milliseconds."""
    ordered = sorted(times_ms)
    return {f"p{percent}_ms": ordered[math.ceil(len(ordered) * percent / 100) - 1] for percent in (50, 95)}
