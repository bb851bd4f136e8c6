"""Why was an answer wrong? One cause for each question, from the answer's evidence and the accepted answers.

    right           given, and right
    withheld        the best candidate is right, but was too unlikely to be given
    outweighed      the best span of a block that was read is a right answer, but another answer has a larger marginal
    misread         the best span of every block read that holds a right answer is another one, or "not here"
    not_retrieved   no block that was read holds a right answer; another block of the corpus does
    not_in_corpus   no block of the corpus holds a right answer
    unanswerable    an answer was given, and the question has none; if none was given, that is right
    not_read        no block that was read holds a right answer, and it is not known whether another does

The first six are all causes of a question with answers, once the corpus has been searched. This is plain data in and
out, without a model: the web application calls it for kept answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from realm_core.questions.answers import holds_answer, is_correct, normalise_answer
from realm_core.serving.provenance import Answer, AnswerCandidate, Evidence, RankedAnswer

CAUSES: Final = ("right", "withheld", "outweighed", "misread", "not_retrieved", "not_in_corpus")
NOT_READ: Final = "not_read"
UNANSWERABLE: Final = "unanswerable"
LOOKED_AT: Final = 1000  # ranks in which a right block is searched for


@dataclass(frozen=True)
class Place:
    """The place of a block that holds a right answer, if none that was read does.

    rank: by the retriever, 1 is the best; None: none of the first `looked_at` holds one. in_corpus: whether any block
    does. looked_at: 0 if ranks are not known.
    """

    in_corpus: bool
    rank: int | None = None
    looked_at: int = LOOKED_AT


@dataclass(frozen=True)
class Contender:
    """An answer, and the block that contributes most to it. text: None for "not here"."""

    text: str | None
    probability: float
    block_id: str
    title: str


@dataclass(frozen=True)
class Why:
    """The cause and the facts behind it; those that do not apply to the cause are None.

    chosen, right: the chosen and the right answer, with marginals; under `misread` with their likelihoods in the right
    block that the retriever ranks highest (right.text is None if that block offers no right span).
    no_answer_probability: of "not here": under `misread` in that block, under `withheld` of all blocks together.
    rank, looked_at: as in `Place`, under `not_retrieved`.
    """

    cause: str
    chosen: Contender | None = None
    right: Contender | None = None
    no_answer_probability: float | None = None
    rank: int | None = None
    looked_at: int | None = None

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Why:
        """The inverse of `dataclasses.asdict`. TypeError or KeyError if the value is none."""
        contenders = {name: None if value[name] is None else Contender(**value[name]) for name in ("chosen", "right")}
        why = cls(**{**value, **contenders})
        if why.cause not in (*CAUSES, UNANSWERABLE):
            raise KeyError(why.cause)
        return why


def explain(answer: Answer, accepted: Sequence[str], answer_type: str = "string", *, place: Place | None = None) -> Why:
    """The cause for one answer.

    accepted: the right answers; none if it is right to give none. place: used only if no block that was read holds one;
    without it the cause is then `not_read`, and a caller who needs to know more finds the place and calls again.
    """
    if not accepted:
        return Why("right") if answer.answer is None else Why(UNANSWERABLE, _summed(answer, answer.answer))
    is_right = partial(is_correct, answers=accepted, answer_type=answer_type)
    best = answer.answers[0] if answer.answers else None
    if best is not None and is_right(best.text):
        if answer.answer is not None:
            return Why("right", right=_summed(answer, best))
        return Why("withheld", right=_summed(answer, best), no_answer_probability=answer.no_answer_probability)
    if best is not None and (merged := next((text for text in best.also if is_right(text)), None)) is not None:
        own = RankedAnswer(merged, _marginal(answer, normalise_answer(merged)))
        return Why("outweighed", _summed(answer, best), _summed(answer, own))

    holding = [
        block
        for block in sorted(answer.evidence, key=lambda block: (-block.retriever_score, block.rank))
        if holds_answer(block.text, accepted, answer_type) or any(is_right(one.text) for one in block.candidates)
    ]
    if not holding:
        return _elsewhere(place)
    read_right = [one for block in holding if (one := _likeliest(block)) is not None and is_right(one.text)]
    if read_right and best is not None:
        wordings = [RankedAnswer(one.text, _marginal(answer, one.key)) for one in read_right]
        right = max(wordings, key=lambda one: one.probability)
        return Why("outweighed", _summed(answer, best), _summed(answer, right))

    block = holding[0]
    chosen = _likeliest(block)
    right_there = _largest([one for one in block.candidates if is_right(one.text)])
    null = block.no_answer_likelihood
    return Why("misread", _contender(block, chosen, null or 0.0), _contender(block, right_there, 0.0), null)


def _elsewhere(place: Place | None) -> Why:
    if place is None:
        return Why(NOT_READ)
    if not place.in_corpus:
        return Why("not_in_corpus")
    return Why("not_retrieved", rank=place.rank, looked_at=place.looked_at)


def _likeliest(block: Evidence) -> AnswerCandidate | None:
    """The best span of a block; None: "not here"."""
    best = _largest(block.candidates)
    return best if best is not None and best.likelihood >= (block.no_answer_likelihood or 0.0) else None


def _largest(candidates: Sequence[AnswerCandidate]) -> AnswerCandidate | None:
    return max(candidates, key=lambda one: one.likelihood, default=None)


def _contender(block: Evidence, candidate: AnswerCandidate | None, otherwise: float) -> Contender:
    """A candidate of one block, with its likelihood; `otherwise`: the probability if there is none."""
    text, likelihood = (candidate.text, candidate.likelihood) if candidate else (None, otherwise)
    return Contender(text, likelihood, block.block_id, block.title)


def _summed(answer: Answer, ranked: RankedAnswer) -> Contender:
    """An answer with its marginal, over all its wordings, and the block that contributes most to it."""
    names = {ranked.text, *ranked.also}
    keys = {one.key for block in answer.evidence for one in block.candidates if one.text in names}
    block = max(answer.evidence, key=lambda block: block.prior * block.likelihood_of(keys))
    return Contender(ranked.text, ranked.probability, block.block_id, block.title)


def _marginal(answer: Answer, key: str) -> float:
    return math.fsum(block.prior * block.likelihood_of({key}) for block in answer.evidence)
