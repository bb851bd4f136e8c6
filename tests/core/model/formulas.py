"""The paper's formulas once more, as loops over Python floats: slow, plain, and written apart from marginal.py.

Lists over blocks K, spans S, masked positions J. −inf as a logit: there is no such span or block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def softmax(scores: Sequence[float]) -> list[float]:
    """exp(s) / Σ exp(s); zeros where there is nothing to choose from."""
    if not scores or max(scores) == -math.inf:
        return [0.0] * len(scores)
    exponentials = [math.exp(score - max(scores)) for score in scores]
    return [value / math.fsum(exponentials) for value in exponentials]


def reading(
    logits_KS: Sequence[Sequence[float]], scores_K: Sequence[float], normalisation: str
) -> tuple[list[float], list[list[float]], list[float] | None]:
    """(weights of the blocks, likelihoods of their spans, likelihoods of "not here" or None)."""
    if normalisation == "block":
        return softmax(scores_K), [softmax(logits) for logits in logits_KS], None
    if normalisation == "block+null":
        with_null = [softmax([*logits, 0.0]) for logits in logits_KS]
        return softmax(scores_K), [row[:-1] for row in with_null], [row[-1] for row in with_null]
    width = len(logits_KS[0])
    flat = softmax([logit + f for logits, f in zip(logits_KS, scores_K, strict=True) for logit in logits])
    rows = [flat[k * width : (k + 1) * width] for k in range(len(scores_K))]
    weights = [math.fsum(row) for row in rows] if any(flat) else softmax(scores_K)
    return weights, [[p / math.fsum(row) if math.fsum(row) else 0.0 for p in row] for row in rows], None


def marginal(prior_K: Sequence[float], likelihood_K: Sequence[float]) -> float:
    """p(y|x) = Σ_z p(y|z,x) p(z|x)."""
    return math.fsum(p * q for p, q in zip(prior_K, likelihood_K, strict=True))


def posterior(prior_K: Sequence[float], likelihood_K: Sequence[float]) -> list[float]:
    """p(z|y,x) = p(y|z,x) p(z|x) / p(y|x)."""
    total = marginal(prior_K, likelihood_K)
    return [p * q / total for p, q in zip(prior_K, likelihood_K, strict=True)]


def masked_loss(
    sentences: Sequence[tuple[Sequence[float], Sequence[Sequence[float]], Sequence[bool]]], *, per_token: bool
) -> float:
    """Of (prior_K, token_KJ, present_J) of each sentence. Paper: −log Σ_z p(z|x) Π_j p(y_j|z,x), the mean over the
    sentences. Release: −log Σ_z p(z|x) p(y_j|z,x), the mean over the masks of all sentences."""
    costs = []
    for prior_K, token_KJ, present_J in sentences:
        places = [j for j, present in enumerate(present_J) if present]
        together = [places] if not per_token else [[j] for j in places]
        for group in together:
            costs.append(-math.log(marginal(prior_K, [math.prod(row[j] for j in group) for row in token_KJ])))
    return math.fsum(costs) / len(costs)
