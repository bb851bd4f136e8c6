"""Figures of many predictions, computed one by one: memory does not grow with their number."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from realm_core.errors import RealmError
from realm_core.evaluation.calibration import Bin, Reliability
from realm_core.evaluation.predictions import Prediction
from realm_core.evaluation.why import CAUSES

RECALL_AT = (1, 5, 20, 100)
SELECTED = (0.5, 0.8, 0.9)
COVERAGE = tuple(number / 20 for number in range(1, 21))  # at which the risk–coverage curve is drawn
_FINE = 2000  # bins to compute AUC and risk–coverage from


@dataclass(frozen=True)
class Figures:
    """exact_match: share of questions whose best candidate is right; exact_match_given: right and given as the answer.

    withheld: share of questions whose best candidate was too unlikely to be given. recall: by k, the share of questions
    with an answer in one of the top k blocks. ece, reliability: calibration of the confidence; ece_probability: of
    p(y|x) used as a confidence. auc: how well the confidence separates right from wrong candidates. selective: by share
    of the questions, the exact match of those with the highest confidence; covered: the same at each of `COVERAGE`, the
    risk–coverage curve. ms: mean time per question. causes: the number of questions by cause, see `why.CAUSES`; None if
    not all predictions have one.
    """

    n: int
    exact_match: float
    exact_match_given: float
    withheld: float
    recall: dict[int, float]
    ece: float
    ece_probability: float
    auc: float | None
    selective: dict[float, float]
    covered: tuple[float, ...]
    reliability: tuple[Bin, ...]
    ms: float
    causes: dict[str, int] | None = None

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
            "ece_probability": self.ece_probability,
            "auc": self.auc,
            **{f"exact_match@{share:.0%}": value for share, value in self.selective.items()},
            "ms_per_question": self.ms,
            "reliability": [dataclasses.asdict(row) for row in self.reliability],
            **({} if self.causes is None else {"why": self.causes}),
        }


def summarise(predictions: Iterable[Prediction]) -> Figures:
    """The figures of many predictions; `RealmError` if there is none."""
    n = right = right_given = withheld = 0
    found = dict.fromkeys(RECALL_AT, 0)
    calibration, fine, of_probability = Reliability(), Reliability(_FINE), Reliability()
    causes = dict.fromkeys(CAUSES, 0)
    ms = 0.0
    for prediction in predictions:
        n += 1
        right += prediction.right
        right_given += prediction.right and prediction.given
        withheld += not prediction.given
        for k in RECALL_AT:
            found[k] += prediction.found_within(k)
        confidence = prediction.probability if prediction.confidence is None else prediction.confidence
        calibration.add(confidence, prediction.right)
        fine.add(confidence, prediction.right)
        of_probability.add(prediction.probability, prediction.right)
        ms += prediction.ms
        if prediction.why is not None:
            causes[prediction.why.cause] += 1
    if not n:
        raise RealmError("There are no predictions to summarise.")
    return Figures(
        n=n,
        exact_match=right / n,
        exact_match_given=right_given / n,
        withheld=withheld / n,
        recall={k: count / n for k, count in found.items()},
        ece=calibration.error(),
        ece_probability=of_probability.error(),
        auc=fine.auc(),
        selective={share: fine.selective(share) for share in SELECTED},
        covered=tuple(fine.selective(share) for share in COVERAGE),
        reliability=tuple(calibration.bins()),
        ms=ms / n,
        causes=causes if sum(causes.values()) == n else None,
    )
