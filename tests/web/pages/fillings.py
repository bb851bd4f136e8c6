"""Fillings whose every number is worked out here, by plain arithmetic on three blocks, or on two that were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

from realm_core.corpus.records import block_id
from realm_core.serving.filled import Filling, FillingEvidence, Guess, MaskWords, Word

SENTENCE = "A regular polygon with 3 sides can be constructed, because 3 is a [MASK] prime."


@dataclass(frozen=True)
class Read:
    """A block that was read, and how likely it makes each word for any mask."""

    title: str
    text: str
    prior: float
    words: dict[str, float]

    @property
    def block_id(self) -> str | None:
        return block_id(self.title, self.text) if self.title else None


NULL = Read("", "", 0.2, {"twin": 0.3, "mersenne": 0.2, "strong": 0.1, "safe": 0.05, "good": 0.04, "fermat": 0.0001})
POLYGON = Read(
    "Constructible polygon",
    "An odd prime number of sides can be constructed only if that number is a Fermat prime.",
    0.5,
    {"fermat": 0.9, "mersenne": 0.05, "twin": 0.01, "strong": 0.004, "safe": 0.003, "good": 0.002},
)
NUMBER = Read(
    "Prime number",
    "A prime number has no divisors but one and itself.",
    0.3,
    {"mersenne": 0.3, "twin": 0.2, "fermat": 0.1, "strong": 0.06, "safe": 0.05, "good": 0.01},
)
BLOCKS = (POLYGON, NUMBER, NULL)


def marginals(words: tuple[str, ...] = ()) -> dict[str, float]:
    """p(word | x) = Σ prior · likelihood, the highest first."""
    names = words or tuple(NULL.words)
    sums = {word: sum(block.prior * block.words.get(word, 1e-14) for block in BLOCKS) for word in names}
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def filling(sentence: str = SENTENCE, truth: str | None = None) -> Filling:
    """What an engine would say: the same word for every mask, `truth` as one wordpiece."""
    masks = max(1, sentence.upper().count("[MASK]"))
    explained = truth.lower() if truth else next(iter(marginals()))

    def likelihood(block: Read, word: str) -> float:
        return block.words.get(word, 1e-14) ** masks

    def guess(word: str) -> Guess:
        return Guess(
            words=(word,) * masks,
            text=" … ".join([word] * masks),
            without_retrieval=likelihood(NULL, word),
            best_block=likelihood(POLYGON, word),
            marginal=sum(block.prior * likelihood(block, word) for block in BLOCKS),
        )

    def top(words: dict[str, float]) -> tuple[Word, ...]:
        return tuple(Word(word, p) for word, p in sorted(words.items(), key=lambda item: -item[1])[:5])

    null = likelihood(NULL, explained)
    return Filling(
        sentence=sentence,
        guesses=tuple(sorted((guess(word) for word in list(marginals())[:5]), key=lambda g: -g.marginal)),
        truth=guess(explained) if truth else None,
        explains="truth" if truth else "guess",
        masks=(MaskWords(top(NULL.words), top(POLYGON.words), top(marginals())),) * masks,
        best_block_id=POLYGON.block_id,
        evidence=_evidence(
            [(block, likelihood(block, explained), log(likelihood(block, explained) / null)) for block in BLOCKS]
        ),
        **_MADE_FROM,
    )


_MADE_FROM: dict[str, Any] = {
    "model": "realm-mini",
    "index": "gen-1",
    "corpus": "0123456789abcdef",
    "latency_ms": 120.0,
    "timings_ms": {"embed": 9.0, "search": 4.0, "read": 105.0, "marginalise": 2.0},
}


def _evidence(read: Sequence[tuple[Read, float, float | None]]) -> tuple[FillingEvidence, ...]:
    """The blocks read, each with its likelihood and utility, the highest posterior first."""
    total = sum(block.prior * likelihood for block, likelihood, _ in read)
    return tuple(
        FillingEvidence(
            rank=rank,
            block_id=block.block_id,
            title=block.title,
            text=block.text,
            section="",
            url="https://en.wikipedia.org/wiki/Example" if block.title else "",
            prior=block.prior,
            likelihood=likelihood,
            posterior=block.prior * likelihood / total,
            utility=utility,
            retriever_score=log(block.prior),
        )
        for rank, (block, likelihood, utility) in enumerate(sorted(read, key=lambda one: -one[0].prior * one[1]), 1)
    )


def read(sentence: str = SENTENCE, truth: str | None = None) -> Filling:
    """What the reader would say: a span of the two blocks that have a text."""
    blocks = (replace(POLYGON, prior=0.7), replace(NUMBER, prior=0.3))
    wanted = truth.lower() if truth and truth.lower() == "fermat" else "fermat"

    def guess(word: str) -> Guess:
        marginal = sum(block.prior * block.words.get(word, 0.0) for block in blocks)
        return Guess((word.title(),), word.title(), None, POLYGON.words.get(word, 0.0), marginal)

    true = (
        None if truth is None else guess(wanted) if truth.lower() == wanted else Guess((truth,), truth, None, 0.0, 0.0)
    )
    return Filling(
        sentence=sentence,
        guesses=(guess("fermat"),),
        truth=true,
        explains="truth" if true is not None and true.marginal > 0 else "guess",
        masks=(),
        best_block_id=POLYGON.block_id,
        evidence=_evidence([(block, block.words[wanted], None) for block in blocks]),
        **_MADE_FROM,
        filled_by="reader",
        no_answer_probability=0.25,
    )
