"""Reads blocks for questions: pairs → span logits → evidence → answer. Used by the engine and by `evaluation`.

Legend: K blocks, N body wordpieces of a batch, L of a block, M longest span, S = longest body × M.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from realm_core.computing import compute_each
from realm_core.corpus.records import Block
from realm_core.index.embedding import even_batches
from realm_core.model.config import ModelConfig, Normalisation
from realm_core.model.marginal import log_reading, prior
from realm_core.model.pairs import ReadingPair, collate
from realm_core.model.reader import Reader, by_block
from realm_core.questions.answers import normalise_answer
from realm_core.serving.english.rules import Rules
from realm_core.serving.english.whole_answers import WholeAnswer
from realm_core.serving.provenance import Answer, AnswerCandidate, Evidence, conclude
from realm_core.serving.wording import displayed
from realm_core.text.wordpieces import Encoded, Wordpieces

# Wordpieces per batch, of pairs of several questions. With half as many more, a layer's activations exceed a CPU's
# cache.
_READ_WORDPIECES_CPU = 1024
_READ_WORDPIECES_GPU = 65536

# Spans kept per block. The rest have negligible probability and are dropped before summing, so that the displayed
# figures add up.
_SPANS_PER_BLOCK = 40
_CANDIDATES_PER_BLOCK = 10


@dataclass(frozen=True)
class SearchResult:
    """A question with its retrieved blocks, best first. scores: f(x, z), or another retriever's prior logits."""

    question: str
    blocks: Sequence[Block]
    scores: Sequence[float]


@dataclass(frozen=True)
class ReadBlock:
    """A block with the reader's output. logits_LM: span logits, relative to "not here".

    Score and logits are calibrated, see `ModelConfig.prior_temperature` and the fields after it.
    """

    block: Block
    body: Encoded
    score: float  # the prior's logit
    logits_LM: Tensor


class BlockReading:
    """Reads blocks with one model. reader: ready for inference, on its device.

    model, index, corpus: ids to record in the answers.
    """

    def __init__(self, reader: Reader, config: ModelConfig, *, model: str, index: str, corpus: str) -> None:
        self._reader, self._config = reader, config
        self.device = reader.ends.weight.device
        self._budget = _READ_WORDPIECES_GPU if self.device.type == "cuda" else _READ_WORDPIECES_CPU
        self._wordpieces = Wordpieces.default()
        self._model, self._index, self._corpus = model, index, corpus

    def read(self, results: Sequence[SearchResult]) -> Generator[list[ReadBlock], None, None]:
        """The blocks of each question with their span logits, yielded in order as soon as they have been read.

        Blocks are read in batches of equal size, one per processor at a time.
        """
        texts = [
            text
            for result in results
            for text in (result.question, *(text for block in result.blocks for text in (block.title, block.text)))
        ]
        encoded = iter(self._wordpieces.encode(texts))
        bodies: list[Encoded] = []
        pairs: list[ReadingPair] = []
        for result in results:
            question = next(encoded)
            for block in result.blocks:
                title, body = next(encoded), next(encoded)
                bodies.append(body)
                pairs.append(ReadingPair.of(self._wordpieces, self._config, question, title, body, block.text))
        at_once = torch.get_num_threads() if self.device.type == "cpu" else 1
        groups = even_batches([len(pair.ids) for pair in pairs], self._budget, at_once)
        scored = compute_each([partial(self._logits, [pairs[i] for i in group]) for group in groups])
        logits: dict[int, Tensor] = {}
        with closing(scored):
            finished, first = zip(groups, scored, strict=True), 0
            for result in results:
                places = range(first, first + len(result.blocks))
                first = places.stop
                while any(place not in logits for place in places):
                    logits.update(zip(*next(finished), strict=True))
                widest = max((logits[place].shape[1] for place in places), default=0)
                rules = Rules.of(result.question)
                yield [
                    ReadBlock(
                        block,
                        bodies[place],
                        score / self._config.prior_temperature,
                        _widened(rules.applied(logits.pop(place), block, bodies[place]), widest),
                    )
                    for block, score, place in zip(result.blocks, result.scores, places, strict=True)
                ]

    def _logits(self, pairs: Sequence[ReadingPair]) -> list[Tensor]:
        """Span logits [L, M] of each pair."""
        with torch.inference_mode():
            packed, bodies = collate(pairs)
            logits_NM = self._reader(packed.to(self.device), bodies.to(self.device)).cpu()
            logits_NM = logits_NM / self._config.reading_temperature + self._config.reading_bias
            return list(logits_NM.split(bodies.lengths))

    def answer(self, question: str, blocks: Sequence[ReadBlock], normalisation: Normalisation) -> Answer:
        """The answer of one reading; the caller adds the timings."""
        return conclude(
            replace(
                unconcluded(question, blocks, normalisation),
                min_probability=self._config.min_probability,
                model=self._model,
                index=self._index,
                corpus=self._corpus,
                min_confidence=self._config.min_confidence,
                confidence_slope=self._config.confidence_slope,
                confidence_offset=self._config.confidence_offset,
                confidence_likelihood=self._config.confidence_likelihood,
                confidence_margin=self._config.confidence_margin,
            )
        )


def unconcluded(question: str, blocks: Sequence[ReadBlock], normalisation: Normalisation) -> Answer:
    """The input of `provenance.conclude`, without threshold and without the ids of model, index and corpus."""
    return Answer(
        question=question,
        answer=None,
        no_answer_probability=None,
        answers=(),
        evidence=evidence_of(question, blocks, normalisation),
        explains="no_answer",
        normalisation=normalisation,
        min_probability=0.0,
        model="",
        index="",
        corpus="",
        latency_ms=0.0,
        timings_ms={},
    )


def _widened(logits_LM: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(logits_LM, (0, width - logits_LM.shape[1]), value=-torch.inf)


def evidence_of(question: str, blocks: Sequence[ReadBlock], normalisation: Normalisation) -> tuple[Evidence, ...]:
    """The evidence of one reading, for `provenance.conclude`.

    A candidate that is among the best of any block is kept in all blocks that have it, so that merging and removing
    blocks stay exact.
    """
    if not blocks:
        return ()
    scores_1K = torch.tensor([[block.score for block in blocks]], dtype=torch.float64)
    width = blocks[0].logits_LM.shape[1]
    logits_KS = by_block(
        torch.cat([block.logits_LM for block in blocks]).double(), tuple(block.logits_LM.shape[0] for block in blocks)
    )
    log_weight_1K, log_likelihood_1KS, log_null_1K = log_reading(logits_KS.unsqueeze(0), scores_1K, normalisation)
    weights_K = log_weight_1K[0].exp().tolist()
    nulls_K = log_null_1K[0].exp().tolist() if log_null_1K is not None else [None] * len(blocks)
    retriever_prior_K = prior([block.score for block in blocks])
    whole = WholeAnswer.of(question)
    candidates_by_key = [
        _candidates(whole, block, log_likelihood_S, width)
        for block, log_likelihood_S in zip(blocks, log_likelihood_1KS[0], strict=True)
    ]
    kept = {
        key
        for own in candidates_by_key
        for key in sorted(own, key=lambda key: -own[key].likelihood)[:_CANDIDATES_PER_BLOCK]
    }
    evidence = []
    for position, (block, own) in enumerate(zip(blocks, candidates_by_key, strict=True)):
        candidates = sorted((own[key] for key in own if key in kept), key=lambda c: (-c.likelihood, c.key))
        evidence.append(
            Evidence(
                rank=position + 1,
                block_id=block.block.block_id,
                title=block.block.title,
                text=block.block.text,
                section=block.block.section,
                url=block.block.url,
                start=None,
                end=None,
                prior=weights_K[position],
                likelihood=0.0,
                posterior=0.0,
                support=0.0,
                retriever_score=block.score,
                retriever_prior=retriever_prior_K[position],
                no_answer_likelihood=nulls_K[position],
                candidates=tuple(candidates),
                opens=block.block.start == 0,
            )
        )
    return tuple(evidence)


def _candidates(
    whole: WholeAnswer, block: ReadBlock, log_likelihood_S: Tensor, width: int
) -> dict[str, AnswerCandidate]:
    """The block's best spans, merged if their normalised answers are equal; the most probable spelling is kept."""
    best = log_likelihood_S.topk(min(_SPANS_PER_BLOCK, log_likelihood_S.shape[0]))
    definition = whole.definition_in(block.block)
    candidates: dict[str, AnswerCandidate] = {}
    for log_likelihood, position in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        if math.isinf(log_likelihood):
            break
        first, extent = divmod(position, width)
        start, end = block.body.offsets[first][0], block.body.offsets[first + extent][1]
        start, end = displayed(block.block.text, *whole.around(block.block.text, start, end, definition))
        text = block.block.text[start:end]
        key = normalise_answer(text) or text.casefold()
        if whole.only_repeats(key):
            continue
        known = candidates.get(key)
        likelihood = math.exp(log_likelihood)
        if known is None:  # spans are sorted, best first
            candidates[key] = AnswerCandidate(key, text, likelihood, start, end)
        else:
            candidates[key] = AnswerCandidate(key, known.text, known.likelihood + likelihood, known.start, known.end)
    return candidates
