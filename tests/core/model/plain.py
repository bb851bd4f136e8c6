"""Reference: the same models in transformers, one sequence at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, BertModel

from realm_core.model.bert import Architecture, Bert
from realm_core.model.embedder import Embedder
from realm_core.model.encoder import Encoder


def plain_config(architecture: Architecture) -> BertConfig:
    """The same for transformers' BERT with eager attention."""
    return BertConfig(**asdict(architecture), attn_implementation="eager")


def plain_bert(bert: Bert) -> BertModel:
    """transformers' own BERT with these weights, dropout off."""
    plain = BertModel(plain_config(bert.config), add_pooling_layer=False).eval()
    plain.load_state_dict(bert.state_dict())
    return plain.to(bert.dtype)


def plain_masked_words(encoder: Encoder) -> BertForMaskedLM:
    """transformers' own masked-language model with this encoder's weights."""
    model = BertForMaskedLM(plain_config(encoder.bert.config))
    head = {
        "transform.dense.weight": encoder.head.dense.weight,
        "transform.dense.bias": encoder.head.dense.bias,
        "transform.LayerNorm.weight": encoder.head.norm.weight,
        "transform.LayerNorm.bias": encoder.head.norm.bias,
        "bias": encoder.head.bias,
    }
    model.bert.load_state_dict(encoder.bert.state_dict())
    model.cls.predictions.load_state_dict(head, strict=False)
    model.tie_weights()
    return model.eval()


def log_words(model: BertForMaskedLM, ids: Sequence[int], segments: Sequence[int], places_J: Sequence[int]) -> Tensor:
    """log p of every word at some places of one sequence: [J, V]."""
    with torch.no_grad():
        logits_1LV = model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([segments])).logits
    return torch.log_softmax(logits_1LV[0, list(places_J)], dim=-1)


class PlainEmbedder:
    """Embed(·) of one sequence at a time, pooled over all its wordpieces; as the embedder is now."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._bert = plain_bert(embedder.bert)

    def __call__(self, ids: Sequence[int], segments: Sequence[int] | None = None) -> Tensor:
        """The vector [D]; segments: default 0."""
        types = torch.tensor([segments or [0] * len(ids)])
        with torch.no_grad():
            hidden_1LW = self._bert(input_ids=torch.tensor([ids]), token_type_ids=types)[0]
            vector_D: Tensor = self._embedder.norm(self._embedder.dense(hidden_1LW[0].mean(0)))
        return vector_D
