"""Figures of many predictions, counted one after the other: memory does not grow with their number."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from realm_core.errors import RealmError
from realm_core.evaluation.calibration import Bin, Reliability
from realm_core.evaluation.predictions import Prediction

RECALL_AT = (1, 5, 20, 100)


@dataclass(frozen=True)
class Figures:
    """exact_match: share of questions whose best candidate is right; exact_match_given: right and given.

    withheld: share of questions whose best candidate was too unlikely to be given. recall: by k, the share of questions
    for which some block of the top k holds an answer. ece, reliability: calibration. ms: mean time of a question.
    """

    n: int
    exact_match: float
    exact_match_given: float
    withheld: float
    recall: dict[int, float]
    ece: float
    reliability: tuple[Bin, ...]
    ms: float

    def as_dict(self) -> dict[str, object]:
        """Plain JSON; recall as `recall@1`, …"""
        recall = {f"recall@{k}": share for k, share in self.recall.items()}
        return {
            "n": self.n,
            "exact_match": self.exact_match,
            "exact_match_given": self.exact_match_given,
            "withheld": self.withheld,
            **recall,
            "ece": self.ece,
            "ms_per_question": self.ms,
            "reliability": [dataclasses.asdict(row) for row in self.reliability],
        }


def summarise(predictions: Iterable[Prediction]) -> Figures:
    """The figures of many predictions; `RealmError` if there is none."""
    n = right = right_given = withheld = 0
    found = dict.fromkeys(RECALL_AT, 0)
    calibration = Reliability()
    ms = 0.0
    for prediction in predictions:
        n += 1
        right += prediction.right
        right_given += prediction.right and prediction.given
        withheld += not prediction.given
        for k in RECALL_AT:
            found[k] += prediction.found_within(k)
        calibration.add(prediction.probability, prediction.right)
        ms += prediction.ms
    if not n:
        raise RealmError("There are no predictions to summarise.")
    return Figures(
        n=n,
        exact_match=right / n,
        exact_match_given=right_given / n,
        withheld=withheld / n,
        recall={k: count / n for k, count in found.items()},
        ece=calibration.error(),
        reliability=tuple(calibration.bins()),
        ms=ms / n,
    )
