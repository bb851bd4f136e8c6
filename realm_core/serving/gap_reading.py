"""Fills the gap of a sentence with the reader, for models without an encoder of masked sentences.

    3 is a [MASK] prime.  →  "3 is a what prime."  →  blocks and spans as for a question  →  filling

p(y | x) = Σ_z p(z | x) p(y | z, x), where y are spans of the blocks: unlike the encoder, the reader has only the
blocks, so there is no null block, no figure without retrieval, and no utility.
"""

from __future__ import annotations

from collections.abc import Collection

from realm_core.errors import RealmError
from realm_core.model import marginal
from realm_core.questions.answers import normalise_answer
from realm_core.serving.filled import Filling, FillingEvidence, Guess
from realm_core.serving.provenance import Answer, Evidence, RankedAnswer
from realm_core.text.masked import MASK, between_masks, without_repetition

_GUESSES = 5
_ASKED = "what"


def one_gap(sentence: str) -> str:
    """The sentence with a single mask for its gap; `RealmError` if it has none, or several."""
    parts = between_masks(sentence)
    if len(parts) == 1:
        raise RealmError(f"The sentence has no {MASK}: write {MASK} where a word is missing.")
    if any(text.strip() for text in parts[1:-1]):
        raise RealmError(f"The model fills one gap at a time: leave one {MASK} in the sentence.")
    return f"{parts[0]}{MASK}{parts[-1]}"


def as_question(sentence: str) -> str:
    """The question whose answer fills the gap of `one_gap`'s sentence."""
    return _ASKED.join(between_masks(sentence))


def filling_of(answer: Answer, sentence: str, truth: str | None) -> Filling:
    """The answer to `as_question(sentence)` as a filling; `RealmError` if no block offers anything."""
    if not answer.answers:
        raise RealmError("No block that was read offers anything for the gap.")
    true = None if truth is None else _named(answer, truth)
    looked_for = true if true is not None and true.probability > 0.0 else answer.answers[0]
    evidence = _evidence(answer, _keys(looked_for))
    best = next(block for block in answer.evidence if block.block_id == evidence[0].block_id)
    return Filling(
        sentence=sentence,
        guesses=tuple(_guess(one, best, sentence) for one in answer.answers[:_GUESSES]),
        truth=None if true is None else _guess(true, best, sentence),
        explains="truth" if looked_for is true else "guess",
        masks=(),
        best_block_id=best.block_id,
        evidence=evidence,
        model=answer.model,
        index=answer.index,
        corpus=answer.corpus,
        latency_ms=answer.latency_ms,
        timings_ms=answer.timings_ms,
        filled_by="reader",
        no_answer_probability=answer.no_answer_probability,
    )


def _named(answer: Answer, truth: str) -> RankedAnswer:
    """The truth as a ranked answer; its probability is 0 if no block has it as a candidate."""
    wanted = normalise_answer(truth)
    said = next((one for one in answer.answers if wanted in _keys(one)), None)
    return RankedAnswer(truth, 0.0) if said is None else said


def _keys(named: RankedAnswer) -> set[str]:
    """The normalised answers of all its wordings."""
    return {normalise_answer(text) or text.casefold() for text in (named.text, *named.also)}


def _guess(named: RankedAnswer, best: Evidence, sentence: str) -> Guess:
    words = (without_repetition(sentence, named.text),)
    return Guess(words, named.text, None, best.likelihood_of(_keys(named)), named.probability)


def _evidence(answer: Answer, keys: Collection[str]) -> tuple[FillingEvidence, ...]:
    """The blocks with their figures for one answer, the highest posterior first."""
    likelihood_K = [block.likelihood_of(keys) for block in answer.evidence]
    posterior_K = marginal.posterior([block.prior for block in answer.evidence], likelihood_K)
    read = (
        (block, block.prior, likelihood, posterior, None, block.retriever_score)
        for block, likelihood, posterior in zip(answer.evidence, likelihood_K, posterior_K, strict=True)
    )
    return FillingEvidence.ranked(read)
