"""A BERT of a few hundred weights for tests."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from transformers import BertModel

from realm_core.model.bert import Architecture, Bert
from tests.core.model.plain import plain_bert

VOCABULARY = 50


def small_bert(*, seed: int = 0) -> Bert:
    """Two layers, W = 16, drawn from `seed`; weights large enough for order, segments and positions to matter."""
    torch.manual_seed(seed)
    config = Architecture(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    bert = Bert(config).eval()
    with torch.no_grad():
        for parameter in bert.parameters():
            if parameter.dim() > 1:
                parameter.mul_(10)
    return bert


@lru_cache(maxsize=1)
def _plain_bert() -> BertModel:
    return plain_bert(small_bert())


def padded_hidden(ids: list[list[int]], segments: list[list[int]], bert: BertModel | None = None) -> list[Tensor]:
    """What transformers computes from the sequences padded to one length: hidden states of each, [L, W].

    bert: default `small_bert()` as transformers has it.
    """
    longest = max(map(len, ids))
    ids_BL = torch.tensor([row + [0] * (longest - len(row)) for row in ids])
    segments_BL = torch.tensor([row + [0] * (longest - len(row)) for row in segments])
    mask_BL = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in ids])
    plain = bert or _plain_bert()
    hidden_BLW = plain(input_ids=ids_BL, token_type_ids=segments_BL, attention_mask=mask_BL)[0]
    return [hidden_LW[: len(row)] for hidden_LW, row in zip(hidden_BLW, ids, strict=True)]
