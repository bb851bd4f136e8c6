"""BERT (Devlin et al., 2019) over packed sequences: a stack of Transformer layers without pooler or head.

Tensors have the names and shapes of transformers' `BertModel`, so that weights are interchangeable. A post-norm layer:

    h ← LayerNorm(h + Dense(attention(h)))      h ← LayerNorm(h + Dense(activation(Dense(h))))

MPNet (Song et al., 2020) is the same stack with a relative position bias that all layers add to their attention
scores; `mpnet.py` renames its tensors.

Legend: T wordpieces of all sequences, W hidden width, I intermediate width, H heads, D head width, L longest sequence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from realm_core.errors import RealmError, quoted
from realm_core.model.attention import Layout, attend

# By the names of config.json. gelu_new is torch's kernel for the tanh formula of the released code, equal to rounding.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
}
# Limits against a config.json that would exhaust memory; BERT-large has 24 layers of width 1,024.
_LARGEST = {
    "vocab_size": 1 << 18,
    "hidden_size": 4096,
    "num_hidden_layers": 48,
    "num_attention_heads": 128,
    "intermediate_size": 1 << 14,
    "max_position_embeddings": 1 << 13,
    "type_vocab_size": 16,
}
_MOST_BUCKETS = 1 << 10
_MAX_DISTANCE = 128  # distances from here on share the last bucket (T5, MPNet)
_PADDING = 0  # id of [PAD]: its embedding is initialised to zero and has no gradient


@dataclass(frozen=True)
class Architecture:
    """BERT's hyperparameters, by the keys of a config.json; the defaults are BERT-base's.

    RealmError for an invalid value; its message begins with the key.

    hidden_act:                     activation of the intermediate Dense: gelu, gelu_new (tanh approximation) or relu.
    max_position_embeddings:        wordpieces of the longest sequence.
    hidden_dropout_prob:            dropout of embeddings and of each sublayer's output, in training.
    attention_probs_dropout_prob:   dropout of the attention weights, in training.
    initializer_range:              standard deviation of the initial weights.
    relative_attention_num_buckets: of the relative position bias (MPNet: 32); 0 for BERT, which has none.
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    initializer_range: float = 0.02
    relative_attention_num_buckets: int = 0

    def __post_init__(self) -> None:
        for name, largest in _LARGEST.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
                raise RealmError(f"{name} must be a whole number from 1 to {largest:,}, not {quoted(value)}.")
        if self.hidden_size % self.num_attention_heads:
            raise RealmError(
                f"num_attention_heads must divide hidden_size, {self.hidden_size}, "
                f"which {self.num_attention_heads} does not."
            )
        buckets = self.relative_attention_num_buckets
        if type(buckets) is not int or not 0 <= buckets <= _MOST_BUCKETS or buckets % 4:
            raise RealmError(
                f"relative_attention_num_buckets must be a multiple of 4 from 0 to {_MOST_BUCKETS:,}, "
                f"not {quoted(buckets)}."
            )
        if not isinstance(self.hidden_act, str) or self.hidden_act not in ACTIVATIONS:
            raise RealmError(f"hidden_act must be one of {', '.join(ACTIVATIONS)}, not {quoted(self.hidden_act)}.")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0 <= _number(value := getattr(self, name)) < 1:
                raise RealmError(f"{name} must be a number from 0 up to 1, not {quoted(value)}.")
        for name in ("layer_norm_eps", "initializer_range"):
            if not 0 < _number(value := getattr(self, name)) <= 1:
                raise RealmError(f"{name} must be a number above 0 and at most 1, not {quoted(value)}.")

    @classmethod
    def of(cls, mapping: Mapping[str, Any]) -> Architecture:
        """From a config.json; other keys are ignored."""
        return cls(**{field.name: mapping[field.name] for field in fields(cls) if field.name in mapping})


def _number(value: object) -> float:
    """The value, or NaN (which fails every comparison) if it is not a number."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


class Bert(nn.Module):
    """Embeddings and layers with random initial weights: normally distributed matrices, biases zero, gains one."""

    def __init__(self, config: Architecture) -> None:
        super().__init__()
        self.config = config
        self.embeddings = _Embeddings(config)
        self.encoder = _Layers(config)
        self.apply(self._draw)

    @property
    def dtype(self) -> torch.dtype:
        return self.embeddings.word_embeddings.weight.dtype

    @property
    def layers(self) -> list[TransformerLayer]:
        return cast(list[TransformerLayer], list(self.encoder.layer))

    def forward(self, ids_T: Tensor, segments_T: Tensor, positions_T: Tensor, layout: Layout) -> Tensor:
        """Hidden states [T, W] of the last layer."""
        hidden_TW: Tensor = self.embeddings(ids_T, segments_T, positions_T)
        bias_HLL = self.position_bias(layout.longest)
        for layer in self.layers:
            hidden_TW = layer(hidden_TW, layout, bias_HLL)
        return hidden_TW

    def position_bias(self, longest: int) -> Tensor | None:
        """The relative position bias [H, L, L] of the attention scores; None for BERT, which has none."""
        relative = self.encoder.relative_attention_bias
        if relative is None:
            return None
        place_L = torch.arange(longest, device=relative.weight.device)
        distance_R = torch.arange(1 - longest, longest, device=relative.weight.device)
        values_HR = relative(relative_bucket(distance_R, relative.num_embeddings)).T
        bias_HLL: Tensor = values_HR[:, place_L - place_L.unsqueeze(1) + longest - 1].contiguous()
        return bias_HLL

    def _draw(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding) and module.weight.is_meta:
            return
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])


def relative_bucket(distance_R: Tensor, buckets: int) -> Tensor:
    """The bucket of each distance from a query to a key (key − query), as in T5 and MPNet.

    Half of the buckets are for keys after the query. In each half, one half of the buckets has one distance each, the
    other covers distances up to `_MAX_DISTANCE` on a logarithmic scale.
    """
    half, exact = buckets // 2, buckets // 4
    far_R = distance_R.abs()
    scale_R = torch.log(far_R.clamp(min=1).float() / exact) / math.log(_MAX_DISTANCE / exact)
    wide_R = (exact + (scale_R * (half - exact)).long()).clamp(max=half - 1)
    return torch.where(far_R < exact, far_R, wide_R) + (distance_R > 0) * half


class _Embedding(nn.Embedding):
    """On the meta device nothing is drawn: torch would import its compiler for it, which takes two seconds."""

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:
            super().reset_parameters()


class _Embeddings(nn.Module):
    def __init__(self, config: Architecture) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = _Embedding(config.vocab_size, width, padding_idx=_PADDING)
        self.position_embeddings = _Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = _Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, ids_T: Tensor, segments_T: Tensor, positions_T: Tensor) -> Tensor:
        sum_TW = self.word_embeddings(ids_T) + self.token_type_embeddings(segments_T)
        hidden_TW: Tensor = self.dropout(self.LayerNorm(sum_TW + self.position_embeddings(positions_T)))
        return hidden_TW


class _Layers(nn.Module):
    def __init__(self, config: Architecture) -> None:
        super().__init__()
        self.layer = nn.ModuleList(TransformerLayer(config) for _ in range(config.num_hidden_layers))
        buckets = config.relative_attention_num_buckets
        self.relative_attention_bias = _Embedding(buckets, config.num_attention_heads) if buckets else None


class TransformerLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(self, config: Architecture) -> None:
        super().__init__()
        self.attention = _Attention(config)
        self.intermediate = _Intermediate(config)
        self.output = _Output(config.intermediate_size, config)

    def forward(self, hidden_TW: Tensor, layout: Layout, bias_HLL: Tensor | None) -> Tensor:
        """Hidden states [T, W]."""
        attended_TW = self.attention(hidden_TW, layout, bias_HLL)
        result_TW: Tensor = self.output(self.intermediate(attended_TW), attended_TW)
        return result_TW


class _Attention(nn.Module):
    def __init__(self, config: Architecture) -> None:
        super().__init__()
        self.self = _SelfAttention(config)
        self.output = _Output(config.hidden_size, config)

    def forward(self, hidden_TW: Tensor, layout: Layout, bias_HLL: Tensor | None) -> Tensor:
        result_TW: Tensor = self.output(self.self(hidden_TW, layout, bias_HLL), hidden_TW)
        return result_TW


class _SelfAttention(nn.Module):
    def __init__(self, config: Architecture) -> None:
        super().__init__()
        width = config.hidden_size
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)  # never called: the attention kernel applies it
        self._shape_HD = (config.num_attention_heads, width // config.num_attention_heads)

    def forward(self, hidden_TW: Tensor, layout: Layout, bias_HLL: Tensor | None) -> Tensor:
        context_THD = attend(
            self.query(hidden_TW).unflatten(1, self._shape_HD),
            self.key(hidden_TW).unflatten(1, self._shape_HD),
            self.value(hidden_TW).unflatten(1, self._shape_HD),
            layout,
            bias_HLL,
            dropout=self.dropout.p if self.training else 0.0,
        )
        return context_THD.flatten(1)


class _Intermediate(nn.Module):
    def __init__(self, config: Architecture) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self._activation = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden_TW: Tensor) -> Tensor:
        return self._activation(self.dense(hidden_TW))


class _Output(nn.Module):
    """LayerNorm(residual + Dense(rows))."""

    def __init__(self, inputs: int, config: Architecture) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, rows_TI: Tensor, residual_TW: Tensor) -> Tensor:
        result_TW: Tensor = self.LayerNorm(self.dropout(self.dense(rows_TI)) + residual_TW)
        return result_TW
