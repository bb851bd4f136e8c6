"""The computations of training, from its modules and formulas, as the device under test runs them.

Legend: B sentences, K blocks, P pairs, J masks, S spans of a block, N body wordpieces, M widest span, D dimension,
V vocabulary.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor

from realm_core.model.marginal import log_answer_marginal, log_prior, log_reading, masked_language_loss
from realm_core.model.reader import by_block
from realm_core.selfcheck.networks import Networks, Sample


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[None]:
    """Autocast as in training: products in bfloat16, float32 in between."""
    context: AbstractContextManager[None] = torch.autocast(
        device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16
    )
    return context


def vectors(networks: Networks, sample: Sample) -> Tensor:
    """Embed of all queries, then of all blocks [B + P, D]."""
    return torch.cat([networks.embedder(sample.queries), networks.embedder(sample.blocks)]).float()


def log_words(networks: Networks, sample: Sample) -> Tensor:
    """log p(· | z, x) at every mask [B, K, J, V]."""
    masked_BKJ = sample.masked_BKJ
    log_MV: Tensor = networks.encoder(sample.pairs, masked_BKJ.flatten())
    return log_MV.float().view(*masked_BKJ.shape, -1)


def span_logits(networks: Networks, sample: Sample) -> Tensor:
    """Scores of the spans [N, M], −inf where there is none."""
    logits_NM: Tensor = networks.reader(sample.pairs, sample.bodies)
    return logits_NM.float()


def pretraining_loss(networks: Networks, sample: Sample, dtype: torch.dtype) -> Tensor:
    """The paper's loss of masked sentences."""
    sentences, k = sample.masked_BKJ.shape[:2]
    with autocast(sample.targets_BJ.device, dtype):
        vectors_CD, log_BKJV = vectors(networks, sample), log_words(networks, sample)
    query_BD, block_BKD = vectors_CD[:sentences], vectors_CD[sentences:].view(sentences, k, -1)
    scores_BK = (query_BD.unsqueeze(1) * block_BKD).sum(-1)
    target_BKJ1 = sample.targets_BJ.unsqueeze(1).expand(-1, k, -1).unsqueeze(-1)
    present_BJ = torch.ones_like(sample.targets_BJ, dtype=torch.bool)
    return masked_language_loss(log_prior(scores_BK), log_BKJV.gather(-1, target_BKJ1).squeeze(-1), present_BJ)


def finetuning_loss(networks: Networks, sample: Sample, dtype: torch.dtype) -> Tensor:
    """−log of the reader's marginal over the right spans, under `block+null`."""
    sentences, k = sample.matrix_BKD.shape[:2]
    with autocast(sample.targets_BJ.device, dtype):
        query_BD, logits_NM = networks.embedder(sample.queries), span_logits(networks, sample)
    right_NM = sample.right_N.unsqueeze(1) & torch.isfinite(logits_NM)
    logits_BKS = by_block(logits_NM, sample.bodies.lengths).view(sentences, k, -1)
    right_BKS = by_block(right_NM.float(), sample.bodies.lengths, fill=0.0).view(sentences, k, -1) > 0
    scores_BK = (query_BD.float().unsqueeze(1) * sample.matrix_BKD).sum(-1)
    log_weight_BK, log_likelihood_BKS, _null = log_reading(logits_BKS, scores_BK, "block+null")
    return -log_answer_marginal(log_weight_BK, log_likelihood_BKS, right_BKS).mean()
