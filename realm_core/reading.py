"""From span logits to evidence: which answers each block offers, and with what likelihood.

Legend: K blocks, L body wordpieces of a block, M widest span, S = longest body × M.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from realm_core.corpus.records import Block
from realm_core.evaluation.answers import normalise_answer
from realm_core.model.marginal import Normalisation, log_reading, prior
from realm_core.model.reader import by_block
from realm_core.provenance import Candidate, Evidence
from realm_core.text.wordpieces import Encoded

# The spans of a block that are told apart. The rest have next to no probability, and lose it: an answer's figures are
# sums over the spans that are kept, so that everything shown adds up.
_SPANS_PER_BLOCK = 40
_CANDIDATES_PER_BLOCK = 10


@dataclass(frozen=True)
class ReadBlock:
    """A block with what the reader made of it. logits_LM: span logits, relative to "not here"."""

    block: Block
    body: Encoded
    score: float  # f(x, z)
    logits_LM: Tensor


def evidence_of(blocks: Sequence[ReadBlock], normalisation: Normalisation) -> tuple[Evidence, ...]:
    """The evidence of one reading, ready for `provenance.conclude`.

    Every candidate that is among the best of any block is kept in every block that offers it, so that merging and
    removing blocks stay exact.
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
    offers = [
        _offers(block, log_likelihood_S, width)
        for block, log_likelihood_S in zip(blocks, log_likelihood_1KS[0], strict=True)
    ]
    kept = {
        key for offer in offers for key in sorted(offer, key=lambda key: -offer[key].likelihood)[:_CANDIDATES_PER_BLOCK]
    }
    evidence = []
    for position, (block, offer) in enumerate(zip(blocks, offers, strict=True)):
        candidates = sorted((offer[key] for key in offer if key in kept), key=lambda c: (-c.likelihood, c.key))
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
            )
        )
    return tuple(evidence)


def _offers(block: ReadBlock, log_likelihood_S: Tensor, width: int) -> dict[str, Candidate]:
    """The block's best spans, merged where they read the same answer; the likeliest spelling stands for them."""
    best = log_likelihood_S.topk(min(_SPANS_PER_BLOCK, log_likelihood_S.shape[0]))
    offers: dict[str, Candidate] = {}
    for log_likelihood, position in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        if math.isinf(log_likelihood):
            break
        first, extent = divmod(position, width)
        start, end = block.body.offsets[first][0], block.body.offsets[first + extent][1]
        text = block.block.text[start:end]
        key = normalise_answer(text) or text.casefold()
        known = offers.get(key)
        likelihood = math.exp(log_likelihood)
        if known is None:  # spans come best first
            offers[key] = Candidate(key, text, likelihood, start, end)
        else:
            offers[key] = Candidate(key, known.text, known.likelihood + likelihood, known.start, known.end)
    return offers
