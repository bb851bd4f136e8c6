"""All formulas of the model's probabilities, on plain tensors.

Source: Guu, Lee, Tung, Pasupat, Chang (2020), "REALM: Retrieval-Augmented Language Model Pre-Training", sections 3.1 to
3.3 and appendices A and D; "release" is the code that Google published with it.

Legend: B questions, K blocks, S spans of a block, J masked positions. Logarithms are natural. A missing span or block
has logit −inf and probability zero. Functions named `log_…` work on tensors, for training and the engine; the others
work on Python floats (computed in double precision), for kept answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from realm_core.model.config import NORMALISATIONS, Normalisation

# ---- the prior: how relevant is each block?


def log_prior(scores_BK: Tensor) -> Tensor:
    """log p(z|x) [B, K]: log-softmax of the relevance scores f(x, z) over the K blocks read (paper, section 3.2)."""
    return torch.log_softmax(scores_BK, dim=-1)


# ---- the reader: what does each block answer?


def log_reading(
    span_logits_BKS: Tensor, scores_BK: Tensor, normalisation: Normalisation
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Weights of the blocks and likelihoods of their spans, under one of the three normalisations.

    span_logits_BKS: span scores relative to the block's "not here" (null) score, which is therefore 0; −inf where
                     there is no span.
    scores_BK:       f(x, z); −inf where there is no block.

    Returns (log_weight_BK, log_likelihood_BKS, log_null_BK), with Σ_K weight = 1 and, for every block,
    Σ_S likelihood (+ null) = 1:

    block       The paper: weight = softmax_K f, likelihood = softmax over the block's spans.
    block+null  As `block`, but each block may also answer "not here": likelihood = softmax over the spans and the
                null; log_null_BK is the null's share.
    joint       The release: one softmax over all spans of all blocks of (span logit + f). As a product of weight and
                likelihood that is weight = softmax_K (f + logsumexp_S logit), likelihood as in `block`.
    """
    spans_BK = _log_sum(span_logits_BKS)
    if normalisation == "block+null":
        total_BK = torch.logaddexp(spans_BK, torch.zeros_like(spans_BK))
        return log_prior(scores_BK), span_logits_BKS - total_BK.unsqueeze(-1), -total_BK
    # A block without spans would give −inf − −inf; its likelihoods are zero.
    finite_BK = torch.where(torch.isfinite(spans_BK), spans_BK, torch.zeros_like(spans_BK))
    log_likelihood_BKS = span_logits_BKS - finite_BK.unsqueeze(-1)
    if normalisation == "block":
        return log_prior(scores_BK), log_likelihood_BKS, None
    if normalisation == "joint":
        joint_BK = scores_BK + spans_BK
        # If no block has a span, the weight is the prior.
        some_B1 = torch.isfinite(joint_BK).any(-1, keepdim=True)
        return log_prior(torch.where(some_B1, joint_BK, scores_BK)), log_likelihood_BKS, None
    raise ValueError(f"normalisation must be one of {', '.join(NORMALISATIONS)}, not {normalisation!r}")


def log_marginal(log_prior_BK: Tensor, log_likelihood_BK: Tensor) -> Tensor:
    """log p(y|x) [B] = log Σ_z p(y|z,x) p(z|x) (paper, eq. 1)."""
    return _log_sum(log_prior_BK + log_likelihood_BK)


def log_answer_marginal(log_weight_BK: Tensor, log_likelihood_BKS: Tensor, correct_BKS: Tensor) -> Tensor:
    """log p(y|x) [B], summed over all spans of all blocks that match the answer; −inf where none does.

    correct_BKS: bool, True at the spans that match y.
    """
    joint_BKS = (log_weight_BK.unsqueeze(-1) + log_likelihood_BKS).masked_fill(~correct_BKS, -math.inf)
    return _log_sum(joint_BKS.flatten(1))


def _log_sum(values: Tensor) -> Tensor:
    """logsumexp over the last axis; where all values are −inf, its gradient is zero (torch's is NaN)."""
    some = torch.isfinite(values).any(-1)
    finite = torch.logsumexp(torch.where(some.unsqueeze(-1), values, torch.zeros_like(values)), dim=-1)
    return torch.where(some, finite, torch.full_like(finite, -math.inf))


# ---- losses


def log_pair_reading(span_logits_PS: Tensor, correct_PS: Tensor) -> Tensor:
    """log p(correct spans|z,x) [P] of (question, block) pairs, or of "not here" where no span is correct.

    As in `block+null`: the probabilities of the block's spans and of "not here" (logit 0) sum to one.
    """
    correct_P = _log_sum(span_logits_PS.masked_fill(~correct_PS, -math.inf))
    spans_P = _log_sum(span_logits_PS)
    total_P = torch.logaddexp(spans_P, torch.zeros_like(spans_P))
    return torch.where(correct_PS.any(-1), correct_P, torch.zeros_like(correct_P)) - total_P


def question_loss(
    log_pair_P: Tensor, answered_P: Tensor, scores_P: Tensor, places_2P: Tensor, questions: int
) -> Tensor:
    """Loss [G] of G questions whose blocks are read together, from `log_pair_reading` of their P pairs.

    −log Σ_z p(z|x) p(y|z,x) over the blocks that hold the answer's string: one of them has to answer, and those that
    only seem to are not forced to (as in `log_answer_marginal`; the other blocks' share of the prior is constant here).
    Plus the mean over the other blocks of −log p("not here"|z,x).

    answered_P: bool, the block holds the string; scores_P: f(x, z); places_2P: question and rank of each pair.
    """
    question_P = places_2P[0]
    table_GK = log_pair_P.new_full((questions, int(places_2P[1].max()) + 1), -math.inf)
    here = (question_P[answered_P], places_2P[1][answered_P])
    scores_GK = table_GK.index_put(here, scores_P[answered_P])
    some_G = torch.isfinite(scores_GK).any(1)
    prior_GK = log_prior(torch.where(some_G.unsqueeze(1), scores_GK, torch.zeros_like(scores_GK)))
    answer_G = log_marginal(prior_GK, table_GK.index_put(here, log_pair_P[answered_P]))
    others_P = ~answered_P
    count_G = log_pair_P.new_zeros(questions).index_add(0, question_P, others_P.to(log_pair_P.dtype))
    null_G = log_pair_P.new_zeros(questions).index_add(0, question_P, torch.where(others_P, log_pair_P, 0.0))
    return -torch.where(some_G, answer_G, torch.zeros_like(answer_G)) - null_G / count_G.clamp(min=1)


def pair_divergence(teacher_PS: Tensor, student_PS: Tensor) -> Tensor:
    """KL divergence [P] of the student's distribution over a pair's spans and its "not here" from the teacher's.

    Both are span logits relative to "not here", with −inf at the same places. Hinton, Vinyals, Dean (2015),
    "Distilling the Knowledge in a Neural Network", at temperature 1.
    """
    log_teacher, log_student = (
        torch.log_softmax(torch.nn.functional.pad(logits, (0, 1)), dim=-1) for logits in (teacher_PS, student_PS)
    )
    there = torch.isfinite(log_teacher) & torch.isfinite(log_student)
    difference = torch.where(there, log_teacher, 0.0) - torch.where(there, log_student, 0.0)
    return (log_teacher.exp() * difference).sum(-1)


def log_retriever_marginal(scores_BK: Tensor, correct_BK: Tensor) -> Tensor:
    """log Σ over the correct blocks of softmax_K f [B]; −inf where no block is correct (ORQA's early loss)."""
    return _log_sum(log_prior(scores_BK).masked_fill(~correct_BK, -math.inf))


def mean_over_possible(log_probability_B: Tensor) -> tuple[Tensor, Tensor]:
    """(−mean of the finite entries, their number): examples without a correct span have no loss."""
    possible_B = torch.isfinite(log_probability_B)
    count = possible_B.sum()
    loss = -torch.where(possible_B, log_probability_B, torch.zeros_like(log_probability_B)).sum() / count.clamp(min=1)
    return loss, count


def masked_language_loss(
    log_prior_BK: Tensor, log_token_BKJ: Tensor, present_BJ: Tensor, *, per_token: bool = False
) -> Tensor:
    """Pre-training loss of a batch.

    log_token_BKJ: log p(y_j | z, x) at the masked positions; present_BJ: bool, False at padding.
    per_token=False, the paper:    −log Σ_z p(z|x) Π_j p(y_j|z,x), mean over B
    per_token=True, the release:   −log Σ_z p(z|x) p(y_j|z,x), mean over all masks of the batch: a sentence is weighted
                                   by its number of masks
    """
    log_token_BKJ = log_token_BKJ.masked_fill(~present_BJ.unsqueeze(1), 0.0)
    if not per_token:
        return -log_marginal(log_prior_BK, log_token_BKJ.sum(-1)).mean()
    marginal_BJ = torch.logsumexp(log_prior_BK.unsqueeze(-1) + log_token_BKJ, dim=1)
    return -(marginal_BJ * present_BJ).sum() / present_BJ.sum().clamp(min=1)


# ---- provenance


def log_posterior(log_prior_BK: Tensor, log_likelihood_BK: Tensor) -> Tensor:
    """log p(z|y,x) [B, K] = log p(y|z,x) p(z|x) / p(y|x)."""
    joint_BK = log_prior_BK + log_likelihood_BK
    return joint_BK - torch.logsumexp(joint_BK, dim=-1, keepdim=True)


def retrieval_utility(log_likelihood_BK: Tensor, log_null_B: Tensor) -> Tensor:
    """RU(z|x) [B, K] = log p(y|z,x) − log p(y|∅,x), ∅ the null block (paper, appendix D, eq. 2)."""
    return log_likelihood_BK - log_null_B.unsqueeze(-1)


# ---- the same on stored numbers


def _double(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def normalise(weights_K: Sequence[float]) -> list[float]:
    """Non-negative weights scaled to sum to one; uniform where all are zero."""
    weights = _double(weights_K)
    total = weights.sum()
    return (weights / total if total > 0 else torch.full_like(weights, 1 / len(weights_K))).tolist()


def prior(scores_K: Sequence[float]) -> list[float]:
    """Softmax of the relevance scores over the blocks read."""
    return log_prior(_double(scores_K)).exp().tolist()


def marginal(prior_K: Sequence[float], likelihood_K: Sequence[float]) -> float:
    """p(y|x) = Σ_z p(y|z,x) p(z|x)."""
    return math.fsum(prior * likelihood for prior, likelihood in zip(prior_K, likelihood_K, strict=True))


def posterior(prior_K: Sequence[float], likelihood_K: Sequence[float]) -> list[float]:
    """p(z|y,x); the prior if no block gives the answer any probability."""
    if marginal(prior_K, likelihood_K) == 0.0:
        return list(prior_K)
    return log_posterior(_double(prior_K).log(), _double(likelihood_K).log()).exp().tolist()
