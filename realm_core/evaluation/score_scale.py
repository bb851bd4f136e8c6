"""A factor that makes BM25's scores prior logits, fitted on questions with answers.

BM25's scores are sums of word weights without a scale that suits a softmax. A reader trained with f(x, z) needs prior
logits of about the same spread; one factor is fitted, by the likelihood of the right answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from realm_core.errors import RealmError
from realm_core.model.config import Normalisation
from realm_core.questions.answers import is_correct
from realm_core.questions.question_file import Question
from realm_core.serving.reading import BlockReading, ReadBlock

CANDIDATES = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)


@dataclass(frozen=True)
class ScaleFit:
    """The result of one scale. log_likelihood: mean log p(right answers | x) over the answerable questions."""

    scale: float
    log_likelihood: float
    exact_match: float


def fit_score_scale(
    read: Iterable[tuple[Question, Sequence[ReadBlock]]],
    reading: BlockReading,
    normalisation: Normalisation,
    candidates: Sequence[float] = CANDIDATES,
) -> tuple[ScaleFit, list[ScaleFit]]:
    """(the scale with the highest likelihood, all scales), from blocks read once with unscaled scores.

    The answers that a block offers do not depend on the scale, so a question that no block read can answer has no
    influence and is left out of the likelihood. `RealmError` if all are such questions.
    """
    logs = [0.0] * len(candidates)
    right = [0] * len(candidates)
    n = possible = 0
    for question, blocks in read:
        n += 1
        seen = False
        for position, scale in enumerate(candidates):
            scaled = [replace(block, score=block.score * scale) for block in blocks]
            answers = reading.answer(question.question, scaled, normalisation).answers
            correct = [is_correct(a.text, question.answers, question.answer_type) for a in answers]
            probability = math.fsum(a.probability for a, ok in zip(answers, correct, strict=True) if ok)
            right[position] += bool(correct) and correct[0]
            if any(correct):
                seen = True
                logs[position] += math.log(max(probability, 1e-30))
        possible += seen
    if not possible:
        raise RealmError("No block read for these questions holds an answer, so no score scale can be fitted.")
    fits = [
        ScaleFit(scale, log / possible, count / n) for scale, log, count in zip(candidates, logs, right, strict=True)
    ]
    return max(fits, key=lambda fit: fit.log_likelihood), fits
