"""Figures of many predictions, computed one by one: memory does not grow with their number."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from realm_core.errors import RealmError
from realm_core.evaluation.calibration import Bin, Reliability
from realm_core.evaluation.predictions import Prediction
from realm_core.evaluation.why import CAUSES, UNANSWERABLE

RECALL_AT = (1, 5, 20, 100)
SELECTED = (0.5, 0.8, 0.9)
COVERAGE = tuple(number / 20 for number in range(1, 21))  # at which the risk–coverage curve is drawn
_FINE = 2000  # bins to compute AUC and risk–coverage from


@dataclass(frozen=True)
class Figures:
    """exact_match: share of questions whose best candidate is right; exact_match_given: right and given as the answer.

    contains_answer: the same, but a right answer may be a part of the candidate ("Mount Everest" for "Everest").
    A question without an answer is right if none is given, as in SQuAD 2.0 (Rajpurkar, Jia, Liang 2018). unanswerable:
    the number of these; answered_unanswerable: the share of them that were answered all the same, None without any.

    withheld: share of questions with an answer whose best candidate was too unlikely to be given. recall: by k, the
    share of questions with an answer that one of the top k blocks holds. ece, reliability: calibration of the
    confidence in the best candidate, which is never right for a question without an answer; ece_probability: of p(y|x)
    used as a confidence. auc: how well the confidence separates right from wrong candidates. selective: by share of the
    questions, the share of right candidates among those with the highest confidence; covered: the same at each of
    `COVERAGE`, the risk–coverage curve. ms: mean time per question. causes: the number of questions by cause, see
    `why.CAUSES`; None if not all predictions have one.
    """

    n: int
    exact_match: float
    exact_match_given: float
    contains_answer: float
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
    unanswerable: int = 0
    answered_unanswerable: float | None = None

    def as_dict(self) -> dict[str, object]:
        """Plain JSON; recall as `recall@1`, …; without what no question of the set can have."""
        found = {
            "withheld": self.withheld,
            **{f"recall@{k}": share for k, share in self.recall.items()},
            **{f"exact_match@{share:.0%}": value for share, value in self.selective.items()},
        }
        silent = {"unanswerable": self.unanswerable, "answered_unanswerable": self.answered_unanswerable}
        return {
            "n": self.n,
            "exact_match": self.exact_match,
            "exact_match_given": self.exact_match_given,
            "contains_answer": self.contains_answer,
            **(found if self.unanswerable < self.n else {}),
            **(silent if self.unanswerable else {}),
            "ece": self.ece,
            "ece_probability": self.ece_probability,
            "auc": self.auc,
            "ms_per_question": self.ms,
            "reliability": [dataclasses.asdict(row) for row in self.reliability],
            **({} if self.causes is None else {"why": self.causes}),
        }


def summarise(predictions: Iterable[Prediction]) -> Figures:
    """The figures of many predictions; `RealmError` if there is none."""
    n = right = right_given = contains = withheld = unanswerable = silent = 0
    found = dict.fromkeys(RECALL_AT, 0)
    calibration, fine, of_probability = Reliability(), Reliability(_FINE), Reliability()
    causes = Counter(dict.fromkeys(CAUSES, 0))  # and UNANSWERABLE only where there are such questions
    ms = 0.0
    for prediction in predictions:
        n += 1
        right += prediction.right
        contains += prediction.contains_answer
        unanswerable += not prediction.is_answerable
        right_given += prediction.right and (prediction.given or not prediction.is_answerable)
        withheld += prediction.is_answerable and not prediction.given
        for k in RECALL_AT:
            found[k] += prediction.found_within(k)
        confidence = prediction.probability if prediction.confidence is None else prediction.confidence
        candidate_is_right = prediction.right and prediction.is_answerable
        calibration.add(confidence, candidate_is_right)
        fine.add(confidence, candidate_is_right)
        of_probability.add(prediction.probability, candidate_is_right)
        silent += prediction.right and not prediction.is_answerable
        ms += prediction.ms
        if prediction.why is not None:
            causes[prediction.why.cause] += 1
    if not n:
        raise RealmError("There are no predictions to summarise.")
    if unanswerable:
        causes.setdefault(UNANSWERABLE, 0)
    answerable = n - unanswerable
    return Figures(
        n=n,
        exact_match=right / n,
        exact_match_given=right_given / n,
        contains_answer=contains / n,
        withheld=withheld / max(answerable, 1),
        recall={k: count / max(answerable, 1) for k, count in found.items()},
        ece=calibration.error(),
        ece_probability=of_probability.error(),
        auc=fine.auc(),
        selective={share: fine.selective(share) for share in SELECTED},
        covered=tuple(fine.selective(share) for share in COVERAGE),
        reliability=tuple(calibration.bins()),
        ms=ms / n,
        causes=dict(causes) if causes.total() == n else None,
        unanswerable=unanswerable,
        answered_unanswerable=(unanswerable - silent) / unanswerable if unanswerable else None,
    )
