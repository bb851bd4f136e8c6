"""Blocks as they are found for a question, unread."""

from __future__ import annotations

from dataclasses import dataclass

from realm_core.model.marginal import prior
from realm_core.serving.corpus import ServedCorpus
from realm_core.serving.reading import SearchResult


@dataclass(frozen=True)
class RetrievedBlock:
    """A block found by search. prior: softmax of the scores over the returned blocks.

    score: f(x, z); in a collection with a weight, the prior's temperature × log weight more.
    """

    rank: int
    block_id: str
    title: str
    text: str
    section: str
    url: str
    score: float
    prior: float
    collection: str


@dataclass(frozen=True)
class Retrieved:
    """The blocks of one search, best first. corpus: the id of the state that was searched."""

    corpus: str
    blocks: list[RetrievedBlock]


def retrieved(corpus: ServedCorpus, result: SearchResult, temperature: float) -> Retrieved:
    """The blocks of one search with their priors. temperature: of the prior."""
    scores = [score / temperature for score in result.scores]
    priors = prior(scores) if scores else []
    blocks = [
        RetrievedBlock(rank, b.block_id, b.title, b.text, b.section, b.url, score, weight, corpus.collection_of(b))
        for rank, (b, score, weight) in enumerate(zip(result.blocks, scores, priors, strict=True), start=1)
    ]
    return Retrieved(corpus.id, blocks)
