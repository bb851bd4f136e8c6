"""A question as it is meant, and the blocks found for it, unread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from realm_core.corpus.records import Block
from realm_core.index.embedding import embed
from realm_core.index.lexical import compared
from realm_core.model.config import ModelConfig
from realm_core.model.embedder import Embedder
from realm_core.model.marginal import prior
from realm_core.serving.corpus import ServedCorpus, Wanted, nearest
from realm_core.serving.reading import SearchResult
from realm_core.text.joins import join_query
from realm_core.text.spelling import QuestionReading, meant
from realm_core.text.wordpieces import Wordpieces


@dataclass(frozen=True)
class RetrievedBlock:
    """A block found by search. prior: softmax of the scores over the returned blocks.

    score: the prior's logit, as in `provenance.Evidence`.
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
    """The blocks of one search, best first. corpus: the id of the state that was searched. read_as: as of `Answer`."""

    corpus: str
    blocks: list[RetrievedBlock]
    read_as: str = ""


@dataclass(frozen=True)
class AskedQuestion:
    """A question as it was typed, and what is searched for it. as_typed: it has no other reading."""

    text: str
    wanted: Wanted
    as_typed: bool


def as_meant(
    corpus: ServedCorpus, questions: Sequence[AskedQuestion], query: Embedder, config: ModelConfig
) -> tuple[list[str], Tensor]:
    """Each question in its best reading, and the vectors [B, D]."""
    readings = [
        [QuestionReading(question.text)] if question.as_typed else corpus.spelling.readings(question.text)
        for question in questions
    ]
    texts = [reading.text for own in readings for reading in own]
    vectors_RD = embed(query, join_query(Wordpieces.default(), texts, config.query_wordpieces))
    rows, first = [], 0
    for question, own in zip(questions, readings, strict=True):
        own_RD = vectors_RD[first : first + len(own)]
        rows.append(first + meant_in(corpus, own, own_RD, question.wanted, config.prior_temperature))
        first += len(own)
    return [texts[row] for row in rows], vectors_RD[rows]


def meant_in(
    corpus: ServedCorpus, readings: Sequence[QuestionReading], vectors_RD: Tensor, wanted: Wanted, temperature: float
) -> int:
    """Which of the readings of a question is meant; vectors_RD: theirs. temperature: of the prior."""

    def found(ks: Sequence[int]) -> list[tuple[list[Block], list[float]]]:
        each = [replace(wanted, k=k) for k in ks]
        return [compared(*one) for one in nearest(corpus, vectors_RD, each, temperature)]

    return meant(readings, found)


def retrieved(corpus: ServedCorpus, question: str, result: SearchResult, temperature: float) -> Retrieved:
    """The blocks of one search for a question as typed, with their priors. temperature: of the prior."""
    scores = [score / temperature for score in result.scores]
    priors = prior(scores) if scores else []
    blocks = [
        RetrievedBlock(rank, b.block_id, b.title, b.text, b.section, b.url, score, weight, corpus.collection_of(b))
        for rank, (b, score, weight) in enumerate(zip(result.blocks, scores, priors, strict=True), start=1)
    ]
    return Retrieved(corpus.id, blocks, "" if result.question == question else result.question)
