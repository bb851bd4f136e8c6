"""What a probability of 0.8 is worth: reliability and expected calibration error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bin:
    """Answers whose probability lies in [low, high): how many, how sure on average, how often right."""

    low: float
    high: float
    count: int
    mean_probability: float
    share_right: float


def reliability(probabilities: Sequence[float], right: Sequence[bool], bins: int = 10) -> tuple[list[Bin], float]:
    """(bins that hold something, expected calibration error).

    ECE = Σ_bins count / n · |mean probability − share right| (Guo et al. 2017, "On Calibration of Modern Neural
    Networks"), over `bins` equal widths.
    """
    table = []
    error = 0.0
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        members = [
            (probability, is_right)
            for probability, is_right in zip(probabilities, right, strict=True)
            if low <= probability < high or (number == bins - 1 and probability >= high)
        ]
        if not members:
            continue
        mean_probability = sum(probability for probability, _ in members) / len(members)
        share_right = sum(is_right for _, is_right in members) / len(members)
        table.append(Bin(low, high, len(members), mean_probability, share_right))
        error += len(members) / len(probabilities) * abs(mean_probability - share_right)
    return table, error
