"""The result of filling a masked sentence in three ways, as in the paper's Table 3.

    without retrieval   p(y | ∅, x)    ∅ is the null block, which has no text
    best block          p(y | z, x)    of the block with the highest posterior
    marginal            p(y | x)       Σ_z p(z | x) p(y | z, x) over all blocks read, including the null block

y are the wordpieces for all masks, p(y | z, x) = Π_j p(y_j | z, x). A `Filling` is plain data.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Word:
    """A wordpiece for one mask, with the prefix `##` if it continues a word. probability: p(y_j | …)."""

    text: str
    probability: float


@dataclass(frozen=True)
class Mask:
    """The most probable wordpieces for one mask, independent of the other masks."""

    without_retrieval: tuple[Word, ...]
    best_block: tuple[Word, ...]  # empty if only the null block was read
    marginal: tuple[Word, ...]


@dataclass(frozen=True)
class Guess:
    """Wordpieces for all masks with their joint probability in each of the three ways."""

    words: tuple[str, ...]
    text: str  # the wordpieces joined to words
    without_retrieval: float
    best_block: float | None  # None if only the null block was read
    marginal: float


@dataclass(frozen=True)
class FillingEvidence:
    """A block that was read. Likelihood, posterior and utility refer to the guess that the filling `explains`."""

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
    """Predictions for a masked sentence, with their evidence.

    explains: what the evidence refers to: "truth" if it was given, otherwise "guess", the first of `guesses`.
    """

    sentence: str
    guesses: tuple[Guess, ...]  # the highest marginal first
    truth: Guess | None  # the correct words, if given
    explains: str
    masks: tuple[Mask, ...]
    best_block_id: str | None  # the block of the "best block" figures
    evidence: tuple[FillingEvidence, ...]
    model: str
    index: str
    corpus: str
    latency_ms: float
    timings_ms: dict[str, float]

    @property
    def explained(self) -> Guess:
        """The guess that the evidence refers to."""
        return self.truth or self.guesses[0]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON with the fields as keys."""
        return asdict(self)
