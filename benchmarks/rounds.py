"""Rounds: every contestant does the same work once a round, the order turning, so that a drift of the machine meets
all of them; figures are medians over the rounds, with the lowest and the highest."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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


def ratios(theirs: Sequence[float], ours: Sequence[float]) -> Summary:
    """Theirs / ours, taken within each round: above one where ours is the faster."""
    return summary([their / our for their, our in zip(theirs, ours, strict=True)])


def latencies(times_ms: Sequence[float]) -> Summary:
    """p50 and p95 (nearest rank) of single questions, in milliseconds."""
    ordered = sorted(times_ms)
    return {f"p{percent}_ms": ordered[math.ceil(len(ordered) * percent / 100) - 1] for percent in (50, 95)}
