"""What became of each question of an evaluation, from its kept predictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from realm_core.evaluation.predictions import Prediction
from realm_core.evaluation.why import CAUSES, UNANSWERABLE
from webapp.evaluations.kept import kept_predictions
from webapp.models import Evaluation

ALL_CAUSES: Final = (*CAUSES, UNANSWERABLE)
_SAYS: Final = {
    "right": "",
    "withheld": "the best candidate is right, but was too unlikely to be given",
    "outweighed": "a block that was read says it, but another answer was more probable over all blocks",
    "misread": "the blocks read that say it were read as another answer, or none",
    "not_retrieved": "only blocks that were not read say it",
    "not_in_corpus": "no block of the corpus says it",
    UNANSWERABLE: "an answer was given, and there is none",
}

_TITLES: Final = {
    "withheld": "Right, but withheld",
    "not_in_corpus": "Not in the corpus",
    UNANSWERABLE: "Answered without an answer",
}


class QuestionOutcome(StrEnum):
    """What became of a question. Exact match counts the last two as right."""

    WRONG = "wrong"
    WITHHELD = "withheld"  # the best candidate is right, but too unlikely to be given
    RIGHT = "right"


@dataclass(frozen=True)
class Predicted:
    """number: of the question, from 1, in the order in which they were asked."""

    number: int
    prediction: Prediction

    @property
    def outcome(self) -> QuestionOutcome:
        """Silence is right if the question has no answer."""
        if not self.prediction.right:
            return QuestionOutcome.WRONG
        is_given = self.prediction.given or not self.prediction.is_answerable
        return QuestionOutcome.RIGHT if is_given else QuestionOutcome.WITHHELD

    @property
    def cause(self) -> str:
        """Why it was not answered right, in words; empty: it was, or that was not looked for."""
        why = self.prediction.why
        return "" if why is None else _SAYS[why.cause]


@dataclass(frozen=True)
class CauseCount:
    """How many of the questions were not answered right for one cause. share: of all that were asked."""

    cause: str
    questions: int
    share: float

    @property
    def title(self) -> str:
        """The cause as a heading."""
        return _TITLES.get(self.cause, self.cause.replace("_", " ").capitalize())

    @property
    def says(self) -> str:
        """What it means."""
        return _SAYS[self.cause]


@dataclass(frozen=True)
class QuestionOutcomes:
    """counts: the number of questions by outcome."""

    counts: Counter[QuestionOutcome]
    _questions: list[Predicted]

    @property
    def worst(self) -> QuestionOutcome | None:
        """The first outcome, as they are listed, that a question has."""
        return next((outcome for outcome in QuestionOutcome if self.counts[outcome]), None)

    def of(self, outcome: QuestionOutcome | None, cause: str | None = None) -> list[Predicted]:
        """The questions with one outcome, and one cause of `ALL_CAUSES`, if these are given."""
        return [
            one
            for one in self._questions
            if outcome in (None, one.outcome)
            and (cause is None or (one.prediction.why is not None and one.prediction.why.cause == cause))
        ]


def causes(evaluation: Evaluation) -> list[CauseCount]:
    """Why questions were not answered right, in numbers; nothing if that was not looked for."""
    counts = evaluation.figures.get("why") or {}
    return [
        CauseCount(cause, counts[cause], counts[cause] / evaluation.asked)
        for cause in ALL_CAUSES
        if cause in counts and cause != "right"
    ]


def outcomes(evaluation: Evaluation) -> QuestionOutcomes:
    """The questions of an evaluation; `RealmError` if its predictions cannot be read."""
    found = list(_predicted(evaluation))
    return QuestionOutcomes(Counter(one.outcome for one in found), found)


def _predicted(evaluation: Evaluation) -> Iterator[Predicted]:
    for number, prediction in enumerate(kept_predictions(evaluation), start=1):
        yield Predicted(number, prediction)
