"""The result of filling a masked sentence in three ways, as in the paper's Table 3.

    without retrieval   p(y | ∅, x)    ∅ is the null block, which has no text
    best block          p(y | z, x)    of the block with the highest posterior
    marginal            p(y | x)       Σ_z p(z | x) p(y | z, x) over all blocks read, including the null block

y are the wordpieces for all masks, p(y | z, x) = Π_j p(y_j | z, x). A `Filling` is plain data. A model without an
encoder fills with its reader (`gap_reading.py`): y is a span then, and there is no null block.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from realm_core.corpus.records import Block
from realm_core.serving.provenance import Evidence


@dataclass(frozen=True)
class Word:
    """A wordpiece for one mask, with the prefix `##` if it continues a word. probability: p(y_j | …)."""

    text: str
    probability: float


@dataclass(frozen=True)
class MaskWords:
    """The most probable wordpieces for one mask, independent of the other masks."""

    without_retrieval: tuple[Word, ...]
    best_block: tuple[Word, ...]  # empty if only the null block was read
    marginal: tuple[Word, ...]


@dataclass(frozen=True)
class Guess:
    """Words for all masks, with their joint probability in each of the three ways."""

    words: tuple[str, ...]  # wordpieces; or a span, without the words beside its gap
    text: str  # the wordpieces joined to words; or the span
    without_retrieval: float | None  # None if the reader filled it
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
    # log p(y | z, x) − log p(y | ∅, x); positive: the block helps; 0: the null block's; None: filled by the reader
    utility: float | None
    retriever_score: float  # f(x, z), the raw inner product

    @classmethod
    def ranked(
        cls, read: Iterable[tuple[Block | Evidence | None, float, float, float, float | None, float]]
    ) -> tuple[FillingEvidence, ...]:
        """The blocks that were read, the highest posterior first; equal ones by prior, then in the given order.

        read: the block (None: the null block), prior, likelihood, posterior, utility, retriever score.
        """
        order = sorted(read, key=lambda one: (-one[3], -one[1]))
        return tuple(
            cls(rank, block.block_id, block.title, block.text, block.section, block.url, *one[1:])
            if (block := one[0])
            else cls(rank, None, "", "", "", "", *one[1:])
            for rank, one in enumerate(order, start=1)
        )


@dataclass(frozen=True)
class Filling:
    """Predictions for a masked sentence, with their evidence.

    explains: what the evidence refers to: "truth" if it was given, otherwise "guess", the first of `guesses`.
    """

    sentence: str
    guesses: tuple[Guess, ...]  # the highest marginal first
    truth: Guess | None  # the correct words, if given
    explains: str
    masks: tuple[MaskWords, ...]  # none if the reader filled it
    best_block_id: str | None  # the block of the "best block" figures
    evidence: tuple[FillingEvidence, ...]
    model: str
    index: str
    corpus: str
    latency_ms: float
    timings_ms: dict[str, float]
    filled_by: str = "encoder"  # or "reader"
    no_answer_probability: float | None = None  # p(no block says it), if the reader knows “not here”

    @property
    def explained(self) -> Guess:
        """The guess that the evidence refers to."""
        return self.truth if self.truth is not None and self.explains == "truth" else self.guesses[0]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON with the fields as keys."""
        return asdict(self)
