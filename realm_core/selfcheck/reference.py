"""The reference: the same quantities in float64 on the CPU, by transformers' own BertModel, one sequence at a time, and
by the paper's formulas without logarithms or optimisations.

Legend as in losses.py; L wordpieces of one sequence, W hidden width, H width of the span MLP.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from realm_core.model.bert import Bert
from realm_core.model.embedder import Embedder
from realm_core.model.packed import Packed
from realm_core.selfcheck.networks import Networks, Sample


def in_double(networks: Networks) -> Networks:
    """A copy in float64, whose BERTs are transformers' with unoptimised attention."""
    twin = copy.deepcopy(networks)
    for part in (twin.embedder, twin.encoder, twin.reader):
        part.bert = _plain(part.bert)
        part.double()
    return twin


def _plain(bert: Bert) -> Any:
    """transformers' BertModel with these weights and the same trainable parameters."""
    from transformers import BertConfig, BertModel  # imported here, because only this needs it, and it takes seconds

    config = BertConfig(**dataclasses.asdict(bert.config), attn_implementation="eager")
    plain = BertModel(config, add_pooling_layer=False).eval()
    plain.load_state_dict(bert.state_dict())
    for name, parameter in bert.named_parameters():
        plain.get_parameter(name).requires_grad_(parameter.requires_grad)
    return plain


def states(bert: Any, batch: Packed) -> list[Tensor]:
    """Hidden states [L, W] of each sequence."""
    sequences = zip(batch.ids_T.split(batch.lengths), batch.segments_T.split(batch.lengths), strict=True)
    return [
        bert(input_ids=ids_L.unsqueeze(0), token_type_ids=segments_L.unsqueeze(0)).last_hidden_state[0]
        for ids_L, segments_L in sequences
    ]


def embed(embedder: Embedder, batch: Packed) -> Tensor:
    """Vectors [count, D]: the mean of the states, Dense, LayerNorm."""
    pooled = torch.stack([states_LW.mean(0) for states_LW in states(embedder.bert, batch)])
    vectors: Tensor = embedder.norm(embedder.dense(pooled))
    return vectors


def vectors(networks: Networks, sample: Sample) -> Tensor:
    """Vectors of all queries, then of all blocks [B + P, D]."""
    return torch.cat([embed(networks.embedder, sample.queries), embed(networks.embedder, sample.blocks)])


def log_words(networks: Networks, sample: Sample) -> Tensor:
    """log p(· | z, x) at every mask [B, K, J, V]."""
    head, words_VW = networks.encoder.head, networks.encoder.bert.embeddings.word_embeddings.weight
    states_TW = torch.cat(states(networks.encoder.bert, sample.pairs))[sample.masked_BKJ]
    logits = head.norm(F.gelu(head.dense(states_TW))) @ words_VW.T + head.bias
    log_BKJV: Tensor = logits - logits.exp().sum(-1, keepdim=True).log()
    return log_BKJV


def span_logits(networks: Networks, sample: Sample) -> Tensor:
    """MLP([h_first; h_last]) − MLP([h_CLS; h_CLS]) of the spans of whole words [N, M], −inf elsewhere."""
    reader, bodies = networks.reader, sample.bodies
    hidden = reader.norm.normalized_shape[0]
    # The reader splits the first Dense into two, one per end; here it is one matrix again.
    weight_HX = torch.cat([reader.ends.weight[:hidden], reader.ends.weight[hidden:]], dim=1)
    bias_H = reader.ends.bias[:hidden] + reader.ends.bias[hidden:]

    def mlp(first_SW: Tensor, last_SW: Tensor) -> Tensor:
        dense_SH = F.linear(torch.cat([first_SW, last_SW], dim=1), weight_HX, bias_H)
        scores_S: Tensor = reader.score(reader.norm(dense_SH.relu())).squeeze(-1)
        return scores_S

    states_TW = torch.cat(states(reader.bert, sample.pairs))
    cls_PW = states_TW[torch.tensor(sample.pairs.starts())]
    null_P = mlp(cls_PW, cls_PW)
    rows, widths, owners = [], [], []
    start = 0
    for pair, length in enumerate(bodies.lengths):
        for first in range(start, start + length):
            for last in range(first, min(first + reader.max_width, start + length)):
                if bodies.word_start_N[first] and bodies.word_end_N[last]:
                    rows.append(first)
                    widths.append(last - first)
                    owners.append(pair)
        start += length
    first_S, width_S = torch.tensor(rows), torch.tensor(widths)
    body_NW = states_TW[bodies.positions_N]
    logits_S = mlp(body_NW[first_S], body_NW[first_S + width_S]) - null_P[torch.tensor(owners)]
    logits_NM = logits_S.new_full((len(body_NW), min(reader.max_width, max(bodies.lengths))), -math.inf)
    return logits_NM.index_put((first_S, width_S), logits_S)


def pretraining_loss(networks: Networks, sample: Sample) -> Tensor:
    """−log Σ_z p(z|x) Π_j p(y_j|z,x), averaged over the sentences."""
    vectors_CD, words_BKJV = vectors(networks, sample), log_words(networks, sample).exp()
    losses = []
    for b, (targets_J, words_KJV) in enumerate(zip(sample.targets_BJ, words_BKJV, strict=True)):
        k = len(words_KJV)
        first = len(sample.targets_BJ) + b * k
        prior_K = torch.softmax(vectors_CD[first : first + k] @ vectors_CD[b], dim=0)
        likelihood_K = torch.stack([words_JV.gather(1, targets_J.unsqueeze(1)).prod() for words_JV in words_KJV])
        losses.append(-(prior_K * likelihood_K).sum().log())
    return torch.stack(losses).mean()


def finetuning_loss(networks: Networks, sample: Sample) -> Tensor:
    """−log Σ_z p(z|x) Σ_{right s} exp g(s) / (1 + Σ_s exp g(s)), averaged over the sentences."""
    odds_NM = span_logits(networks, sample).exp()
    shares_P = torch.stack(
        [
            (odds * right.unsqueeze(1)).sum() / (1 + odds.sum())
            for odds, right in zip(
                odds_NM.split(sample.bodies.lengths), sample.right_N.split(sample.bodies.lengths), strict=True
            )
        ]
    )
    query_BD, matrix_BKD = embed(networks.embedder, sample.queries), sample.matrix_BKD.double()
    prior_BK = torch.softmax((matrix_BKD @ query_BD.unsqueeze(-1)).squeeze(-1), dim=1)
    return -(prior_BK * shares_P.view_as(prior_BK)).sum(1).log().mean()
