"""Calibration of probabilities: reliability, expected calibration error, and discrimination (AUC)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True)
class Bin:
    """Answers whose probability is in [low, high): their number, mean probability, and share right."""

    low: float
    high: float
    count: int
    mean_probability: float
    share_right: float


class Reliability:
    """Counts of answers in `bins` bins of equal width, updated answer by answer."""

    def __init__(self, bins: int = 10) -> None:
        self._lows = [number / bins for number in range(bins)]
        self._counts = [0] * bins
        self._probabilities = [0.0] * bins
        self._right = [0] * bins

    def add(self, probability: float, right: bool) -> None:
        """Count one answer; a probability of 1 belongs to the last bin."""
        number = max(0, bisect_right(self._lows, probability) - 1)
        self._counts[number] += 1
        self._probabilities[number] += probability
        self._right[number] += right

    def bins(self) -> list[Bin]:
        """The non-empty bins."""
        highs = [*self._lows[1:], 1.0]
        return [
            Bin(low, high, count, probability / count, right / count)
            for low, high, count, probability, right in zip(
                self._lows, highs, self._counts, self._probabilities, self._right, strict=True
            )
            if count
        ]

    def error(self) -> float:
        """ECE = Σ_bins count / n · |mean probability − share right|.

        Guo, Pleiss, Sun, Weinberger (2017), "On Calibration of Modern Neural Networks", eq. 3.
        """
        table = self.bins()
        total = sum(row.count for row in table)
        return sum(row.count / total * abs(row.mean_probability - row.share_right) for row in table)

    def auc(self) -> float | None:
        """Share of pairs of a right and a wrong answer in which the right one is in the higher bin; ties count half.

        The area under the ROC curve; None if all are right or all are wrong.
        """
        right, wrong = sum(self._right), sum(self._counts) - sum(self._right)
        if not right or not wrong:
            return None
        below = pairs = 0.0
        for count, correct in zip(self._counts, self._right, strict=True):
            pairs += correct * (below + (count - correct) / 2)
            below += count - correct
        return pairs / (right * wrong)

    def selective(self, share: float) -> float:
        """Accuracy of this share of the answers, those in the highest bins; the last bin may be used in part."""
        wanted = share * sum(self._counts)
        left, right = wanted, 0.0
        for count, correct in zip(reversed(self._counts), reversed(self._right), strict=True):
            if not count:  # as nearly all are of a thousand bins
                continue
            if count >= left:
                right += correct * left / count
                break
            right += correct
            left -= count
        return right / wanted
