"""Sentences whose gaps the server fills, as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guess:
    """Words for all gaps together, with their probability in each of three ways; a reader knows only the last two."""

    words: tuple[str, ...]
    text: str
    without_retrieval: float | None
    best_block: float | None
    marginal: float


@dataclass(frozen=True)
class FillingEvidence:
    """A block that was read for gaps. block_id: None for the null block."""

    rank: int
    block_id: str | None
    title: str
    text: str
    section: str
    url: str
    prior: float
    likelihood: float
    posterior: float
    utility: float | None
    retriever_score: float


@dataclass(frozen=True)
class Filling:
    """A sentence with its gaps filled. filled_by: the model's "encoder", or its "reader"."""

    sentence: str
    guesses: tuple[Guess, ...]
    truth: Guess | None
    explains: str
    best_block_id: str | None
    evidence: tuple[FillingEvidence, ...]
    model: str
    index: str
    corpus: str
    latency_ms: float
    filled_by: str = "encoder"
    no_answer_probability: float | None = None
