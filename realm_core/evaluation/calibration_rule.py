"""The rule by which `calibrate` chooses: questions that were read with one model in one corpus → its calibration there.

1. For each setting of the grid the threshold is the lowest at which at most `allowed` of the questions without an
   answer are answered. The setting's accuracy is the share of the other questions answered right at this threshold; in
   a corpus where many answers are missing, the share whose best candidate is right.
2. The chosen setting has the largest sum of that accuracy and `_LIKELIHOOD_WEIGHT` times the mean log-likelihood of the
   correct outcomes (an answer, or none), each averaged over files: accuracy comes first, but a point of exact match is
   not worth any distortion of the probabilities.
3. With it the questions are answered as the engine answers them, with the wordings of one thing summed; on these
   answers the confidence is fitted by logistic regression on whether the best answer is right, each file with equal
   weight. `min_confidence` is the lowest at which at most `allowed` of the questions without an answer are answered,
   and `min_probability` the same for the share, which decides once training has made the confidence void.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from realm_core.evaluation.calibration import Reliability
from realm_core.model.config import Calibration
from realm_core.questions.answers import is_correct, normalise_answer
from realm_core.questions.question_file import Question
from realm_core.serving.provenance import conclude, confidence, least_share
from realm_core.serving.reading import ReadBlock, unconcluded

PRIOR_TEMPERATURES = (0.5, 0.7, 1.0, 1.4, 2.0)
READING_TEMPERATURES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
BIASES = (-5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0)
_LIKELIHOOD_WEIGHT = 0.03
_MIN_PROBABILITY = 1e-3  # bounds the loss of a question whose answer is in no block
_SPANS = 40  # kept per block, as when answering
_SIGNS = 3  # features of confidence
_MIN_WEIGHT = 1e-3  # features of confidence have positive weights
_DIGITS = 5  # significant digits of the numbers in a configuration
_LEAST_THRESHOLD = 1e-5

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreSetting:
    """How scores are transformed before they become probabilities, see `ModelConfig`."""

    prior_temperature: float
    reading_temperature: float
    reading_bias: float


@dataclass(frozen=True)
class SettingOutcome:
    """The best answer to one question under one setting. likelihood: of all correct outcomes."""

    right: bool
    share: float  # p(y|x) / (p(y|x) + p(no answer|x))
    likelihood: float


@dataclass(frozen=True)
class Answered:
    """One question answered with the chosen setting. signs: `Answer.confidence_features`; None without an answer."""

    right: bool
    share: float
    signs: tuple[float, float, float] | None


@dataclass(frozen=True)
class Fit:
    """A calibration and how it does: by file the share of the questions that are answered right.

    auc: of the confidence as a predictor of a right answer.
    """

    calibration: Calibration
    right: dict[str, float]
    answered_unanswerable: float
    auc: float | None


class ReadQuestion:
    """A question and its read blocks, from which the outcome of every setting follows."""

    def __init__(self, question: Question, blocks: Sequence[ReadBlock]) -> None:
        keys: dict[str, int] = {}
        self._question, self._blocks = question, blocks
        self._right: list[bool] = []
        self._scores_K = np.array([block.score for block in blocks], dtype=np.float64)
        self._logits: list[Floats] = []
        spans: list[tuple[int, int, float]] = []
        for number, block in enumerate(blocks):
            flat = block.logits_LM.flatten().double()
            self._logits.append(flat[torch.isfinite(flat)].numpy())
            best = flat.topk(min(_SPANS, len(flat)))
            for logit, position in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                if math.isinf(logit):
                    break
                first, extent = divmod(position, block.logits_LM.shape[1])
                text = block.block.text[block.body.offsets[first][0] : block.body.offsets[first + extent][1]]
                key = normalise_answer(text) or text.casefold()
                if key not in keys:
                    keys[key] = len(keys)
                    self._right.append(
                        bool(question.answers) and is_correct(text, question.answers, question.answer_type)
                    )
                spans.append((number, keys[key], logit))
        self.answerable = bool(question.answers)
        self._block_S = np.array([span[0] for span in spans], dtype=np.int64)
        self._key_S = np.array([span[1] for span in spans], dtype=np.int64)
        self._logit_S = np.array([span[2] for span in spans], dtype=np.float64)
        self._sums: dict[float, Floats] = {}

    def outcome(self, setting: ScoreSetting) -> SettingOutcome:
        """Its best answer under `block+null`."""
        scores_K = self._scores_K / setting.prior_temperature
        prior_K = np.exp(scores_K - scores_K.max())
        prior_K /= prior_K.sum()
        temperature = setting.reading_temperature
        if temperature not in self._sums:
            self._sums[temperature] = np.array([_log_sum(logits / temperature) for logits in self._logits])
        total_K = np.logaddexp(self._sums[temperature] + setting.reading_bias, 0.0)
        null = float((prior_K * np.exp(-total_K)).sum())
        if not self._right:
            return SettingOutcome(False, 0.0, 0.0 if self.answerable else null)
        joint_S = prior_K[self._block_S] * np.exp(
            self._logit_S / temperature + setting.reading_bias - total_K[self._block_S]
        )
        answers_Y = np.bincount(self._key_S, weights=joint_S, minlength=len(self._right))
        best = int(answers_Y.argmax())
        of_right = float(answers_Y[np.array(self._right)].sum()) if self.answerable else null
        share = float(answers_Y[best] / (answers_Y[best] + null))
        return SettingOutcome(self._right[best], share, of_right)

    def answered(self, setting: ScoreSetting) -> Answered:
        """The answer of the engine under `block+null`: wordings that name the same thing are summed."""
        blocks = [
            dataclasses.replace(
                block,
                score=block.score / setting.prior_temperature,
                logits_LM=block.logits_LM / setting.reading_temperature + setting.reading_bias,
            )
            for block in self._blocks
        ]
        answer = conclude(unconcluded(self._question.question, blocks, "block+null"))
        if not answer.answers:
            return Answered(False, 0.0, None)
        question = self._question
        right = bool(question.answers) and is_correct(answer.answers[0].text, question.answers, question.answer_type)
        return Answered(right, answer.share, answer.confidence_features)


def _log_sum(values: Floats) -> float:
    return float(np.logaddexp.reduce(values)) if len(values) else -math.inf


def fitted(
    files: Mapping[str, Sequence[ReadQuestion]],
    without: Sequence[ReadQuestion],
    allowed: float,
    *,
    withheld_counts: bool = True,
) -> Fit:
    """The settings that the rule above chooses, from files of questions with answers and from questions without.

    withheld_counts: whether a right answer below the threshold counts as none.
    """

    def right_share(answers: Sequence[SettingOutcome], threshold: float) -> float:
        return _mean([one.right and (one.share >= threshold or not withheld_counts) for one in answers])

    found = []
    for parts in itertools.product(PRIOR_TEMPERATURES, READING_TEMPERATURES, BIASES):
        setting = ScoreSetting(*parts)
        outcomes = [[question.outcome(setting) for question in group] for group in files.values()]
        none = [question.outcome(setting) for question in without]
        threshold = _threshold([outcome.share for outcome in none], allowed)
        accuracy = _mean([right_share(group, threshold) for group in outcomes])
        log_likelihood = _mean([_log_likelihood(group) for group in (*outcomes, none)])
        found.append((accuracy, log_likelihood, setting))
    *_, setting = max(found, key=lambda one: (one[0] + _LIKELIHOOD_WEIGHT * one[1], one[0]))
    answers = {name: [question.answered(setting) for question in group] for name, group in files.items()}
    unanswerable = [question.answered(setting) for question in without]
    *weights, offset = map(_rounded, _confidence_weights([*answers.values(), unanswerable]))
    slope, likelihood, margin = weights

    def sure(answered: Answered) -> float:
        return 0.0 if answered.signs is None else confidence(answered.signs, weights, offset)

    def given(answered: Answered, least: float) -> bool:
        return answered.share >= least_share(sure(answered)) and sure(answered) >= least

    offered = [sure(answered) * (answered.share >= least_share(sure(answered))) for answered in unanswerable]
    min_confidence = _next_half_percent(_threshold(offered, allowed))
    counts = Reliability(2000)
    for answered in itertools.chain(*answers.values(), unanswerable):
        if answered.signs is not None:
            counts.add(sure(answered), answered.right)
    calibration = Calibration(
        min_confidence=min_confidence,
        min_probability=_threshold([answered.share for answered in unanswerable], allowed),
        confidence_slope=slope,
        confidence_likelihood=likelihood,
        confidence_margin=margin,
        confidence_offset=offset,
        **dataclasses.asdict(setting),
    )
    return Fit(
        calibration,
        {
            name: _mean([one.right and (given(one, min_confidence) or not withheld_counts) for one in group])
            for name, group in answers.items()
        },
        _mean([given(answered, min_confidence) for answered in unanswerable]),
        counts.auc(),
    )


def _rounded(value: float) -> float:
    """With as many digits as a configuration has."""
    return float(f"{value:.{_DIGITS}g}")


def _confidence_weights(files: Sequence[Sequence[Answered]]) -> tuple[float, ...]:
    """(slope, likelihood, margin, offset). Each file has equal weight.

    A question for which no block offers an answer is not used. Features whose weight would be below
    `_MIN_WEIGHT` get that one, and the others are fitted beside them.
    """
    offered = [[answered for answered in group if answered.signs is not None] for group in files]
    inputs = [answered.signs for group in offered for answered in group if answered.signs is not None]
    right = [answered.right for group in offered for answered in group]
    importance = [1.0 / len(group) for group in offered for _ in group]
    raised: frozenset[int] = frozenset()
    while True:
        free = [place for place in range(_SIGNS) if place not in raised]
        *weights, offset = logistic(
            [[signs[place] for place in free] for signs in inputs],
            right,
            importance,
            [_MIN_WEIGHT * math.fsum(signs[place] for place in raised) for signs in inputs],
        )
        low = frozenset(place for place, weight in zip(free, weights, strict=True) if weight < _MIN_WEIGHT)
        if not low:
            found = dict(zip(free, weights, strict=True)) | dict.fromkeys(raised, _MIN_WEIGHT)
            return (*(found[place] for place in range(_SIGNS)), offset)
        raised |= low


def _log_likelihood(outcomes: Sequence[SettingOutcome]) -> float:
    return _mean([math.log(max(outcome.likelihood, _MIN_PROBABILITY)) for outcome in outcomes])


def _threshold(shares: Sequence[float], allowed: float) -> float:
    """The lowest threshold at which at most `allowed` of the questions are answered: just above the next share.

    A share that rounds to 1 is above every threshold, so more than `allowed` may pass.
    """
    ordered = sorted(shares, reverse=True)
    place = math.floor(allowed * len(ordered) + 1e-9)
    return _just_above(ordered[place]) if place < len(ordered) else 0.0


def _just_above(share: float) -> float:
    """The next number above `share` with five significant digits, as a configuration has; at least 1e-5, below 1."""
    if share < _LEAST_THRESHOLD:
        return _LEAST_THRESHOLD
    step = 10.0 ** (math.floor(math.log10(share)) - _DIGITS + 1)
    return min(float(f"{(math.floor(share / step * (1 + 1e-12)) + 1) * step:.{_DIGITS}g}"), 1.0 - 10.0**-_DIGITS)


def _next_half_percent(threshold: float) -> float:
    """0.5, 1.5, … or 99.5 %: no confidence, shown in whole per cent, looks as if it were on the other side."""
    return (10 * min(max(math.ceil(100.0 * threshold - 0.5), 0), 99) + 5) / 1000.0


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def logistic(
    inputs: Sequence[Sequence[float]],
    right: Sequence[bool],
    weights: Sequence[float],
    given: Sequence[float] | None = None,
) -> tuple[float, ...]:
    """Weights of the inputs, then the offset, of the weighted logistic regression on `right`.

    given: added to each logit, not fitted.
    """
    input_NI = torch.tensor(inputs, dtype=torch.float64).reshape(len(right), -1)
    truth_N, weight_N = (torch.tensor(values, dtype=torch.float64) for values in (right, weights))
    given_N = torch.tensor(given if given is not None else [0.0] * len(right), dtype=torch.float64)
    # A weak prior towards the actual share keeps the weights finite if the data are separable.
    towards = torch.tensor([1.0] * (input_NI.shape[1] > 0) + [0.0] * max(1, input_NI.shape[1]), dtype=torch.float64)
    beta = towards.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([beta], max_iter=200, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        each_N = torch.nn.functional.binary_cross_entropy_with_logits(
            input_NI @ beta[:-1] + beta[-1] + given_N, truth_N, reduction="none"
        )
        value = (weight_N * each_N).sum() / weight_N.sum() + 1e-4 * ((beta - towards) ** 2).sum()
        value.backward()
        return value

    optimiser.step(loss)
    return tuple(beta.tolist())
