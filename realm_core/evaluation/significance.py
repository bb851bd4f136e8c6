"""Whether one run is better than another on the same questions, by the paired outcomes; of one training or several.

The outcome of a question is yes or no: its answer is right, or one of the best five blocks holds one. Of n questions, b
have the outcome yes only in the first run and c only in the second; the others do not matter for the comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from realm_core.errors import RealmError

_RESAMPLES = 20_000
_RESAMPLES_OF_SEEDS = 4_000  # which take memory for each question
_SEED = 0
_CHANCE = 0.05


@dataclass(frozen=True)
class Difference:
    """The share of questions with the outcome yes in the second run, minus that in the first.

    low, high: 95 % paired bootstrap interval of it (percentiles). p: exact McNemar test, two-sided.
    """

    n: int
    first_only: int
    second_only: int
    difference: float
    low: float
    high: float
    p: float

    @property
    def may_be_chance(self) -> bool:
        """By the exact test; of few questions the bootstrap's interval is too narrow."""
        return self.p >= _CHANCE


def paired_difference(outcomes: Iterable[tuple[bool, bool]]) -> Difference:
    """The difference of two runs from (yes in the first, yes in the second) of each question."""
    n = first_only = second_only = 0
    for first, second in outcomes:
        n += 1
        first_only += first and not second
        second_only += second and not first
    if not n:
        raise RealmError("There are no questions to compare runs on.")
    low, high = _bootstrap_interval(n, first_only, second_only)
    return Difference(
        n, first_only, second_only, (second_only - first_only) / n, low, high, mcnemar(first_only, second_only)
    )


@dataclass(frozen=True)
class RepeatedDifference:
    """The mean outcome of several trainings minus that of several others. low, high: 95 % interval."""

    difference: float
    low: float
    high: float


def repeated_difference(first_SN: Sequence[Sequence[bool]], second_SN: Sequence[Sequence[bool]]) -> RepeatedDifference:
    """The difference of two recipes, each trained with S seeds and measured on the same N questions.

    A percentile bootstrap that draws the seeds of each and the questions: it says how another training, measured by
    other questions, might come out. With one seed it knows nothing of the former.
    """
    first, second = np.array(first_SN, float), np.array(second_SN, float)
    if not first.size or first.shape[1] != second.shape[1]:
        raise RealmError("Trainings can be compared only on the same questions, and on one at least.")
    generator = np.random.default_rng(_SEED)

    def drawn(count: int) -> np.ndarray:
        return generator.multinomial(count, np.full(count, 1 / count), size=_RESAMPLES_OF_SEEDS) / count

    differences_BN = drawn(len(second)) @ second - drawn(len(first)) @ first
    low, high = np.percentile((differences_BN * drawn(first.shape[1])).sum(1), [2.5, 97.5])
    return RepeatedDifference(float(second.mean() - first.mean()), float(low), float(high))


def mcnemar(first_only: int, second_only: int) -> float:
    """Two-sided p-value: if both runs were alike, each question on which they differ would be a fair coin's throw.

    McNemar (1947), with the binomial distribution itself instead of its approximation:
    p = min(1, 2 · P(X ≤ min(b, c))), X ~ Binomial(b + c, ½).
    """
    throws, fewer = first_only + second_only, min(first_only, second_only)
    ways = term = 1  # integers: exact for any number of throws
    for count in range(1, fewer + 1):
        term = term * (throws - count + 1) // count
        ways += term
    p: float = 2 * ways / 2**throws
    return min(1.0, p)


def _bootstrap_interval(n: int, first_only: int, second_only: int) -> tuple[float, float]:
    """Percentile interval (Efron and Tibshirani 1993, chapter 13) of the mean of n outcomes of −1, 0 and 1.

    Drawing n questions with replacement is drawing the count of each outcome: a multinomial.
    """
    shares = np.array([first_only, n - first_only - second_only, second_only]) / n
    counts = np.random.default_rng(_SEED).multinomial(n, shares, size=_RESAMPLES)
    low, high = np.percentile((counts[:, 2] - counts[:, 0]) / n, [2.5, 97.5])
    return float(low), float(high)
