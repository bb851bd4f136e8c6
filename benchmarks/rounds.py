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


def share(count: int, of: int) -> Summary:
    """The share, and the lowest and the highest that it is likely to be one of: Wilson's interval of 95 %."""
    z2 = statistics.NormalDist().inv_cdf(0.975) ** 2
    centre = (count + z2 / 2) / (of + z2)
    half = math.sqrt(z2 * (count * (of - count) / of + z2 / 4)) / (of + z2)
    return {"share": count / of, "low": max(0.0, centre - half), "high": min(1.0, centre + half)}


def ratios(theirs: Sequence[float], ours: Sequence[float]) -> Summary:
    """Theirs / ours, taken within each round: above one where ours is the faster."""
    return summary([their / our for their, our in zip(theirs, ours, strict=True)])


def latencies(times_ms: Sequence[float]) -> Summary:
    """p50 and p95 (nearest rank) of single questions, in milliseconds."""
    ordered = sorted(times_ms)
    return {f"p{percent}_ms": ordered[math.ceil(len(ordered) * percent / 100) - 1] for percent in (50, 95)}
