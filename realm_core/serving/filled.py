"""A masked sentence, filled in three ways: the paper's Table 3 for any sentence.

    without retrieval   p(y | ∅, x)    ∅ the null block, which has no text
    best block          p(y | z, x)    of the block that has the greatest share in the filling
    marginal            p(y | x)       Σ_z p(z | x) p(y | z, x) over all blocks read, the null block among them

y are the wordpieces behind all masks, p(y | z, x) = Π_j p(y_j | z, x). A `Filling` is plain data.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Word:
    """A wordpiece for one mask, `##` before it where it goes on with a word. probability: p(y_j | …)."""

    text: str
    probability: float


@dataclass(frozen=True)
class Mask:
    """The likeliest wordpieces for one mask, whatever the other masks hide."""

    without_retrieval: tuple[Word, ...]
    best_block: tuple[Word, ...]  # empty where no block but the null block was read
    marginal: tuple[Word, ...]


@dataclass(frozen=True)
class Guess:
    """Wordpieces for all masks together, with their probability in each of the three ways."""

    words: tuple[str, ...]
    text: str  # the same as one reads them
    without_retrieval: float
    best_block: float | None  # None where no block but the null block was read
    marginal: float


@dataclass(frozen=True)
class FillingEvidence:
    """A block that was read. Likelihood, posterior and utility are about the guess that the filling `explains`."""

    rank: int  # 1 is the highest posterior
    block_id: str | None  # None: the null block
    title: str
    text: str
    section: str
    url: str
    prior: float  # p(z | x); sums to one over the blocks read
    likelihood: float  # p(y | z, x)
    posterior: float  # p(z | y, x); sums to one over the blocks read
    utility: float  # log p(y | z, x) − log p(y | ∅, x); positive: the block helps. The null block's is zero
    retriever_score: float  # f(x, z), the raw inner product


@dataclass(frozen=True)
class Filling:
    """What was masked, what fills it, and why.

    explains: what the evidence is about: "truth", where it was given, otherwise "guess", the first of `guesses`.
    """

    sentence: str
    guesses: tuple[Guess, ...]  # the highest marginal first
    truth: Guess | None  # what is known to stand there, if that was said
    explains: str
    masks: tuple[Mask, ...]
    best_block_id: str | None  # the block that "best block" means
    evidence: tuple[FillingEvidence, ...]
    model: str
    index: str
    corpus: str
    latency_ms: float
    timings_ms: dict[str, float]

    @property
    def explained(self) -> Guess:
        """The guess that the evidence is about."""
        return self.truth or self.guesses[0]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON, keys as the fields."""
        return asdict(self)
