"""The networks to check, REALM's three, and random sequences for them.

Neither a corpus nor a vocabulary is needed: arithmetic does not depend on meaning.

Legend: B sentences, K blocks of each, P pairs (B · K), J masks, T wordpieces of all sequences, N body wordpieces of all
pairs, M widest span, D dimension.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from realm_core.model.base import base_bert
from realm_core.model.bert import Architecture, Bert
from realm_core.model.config import ModelConfig
from realm_core.model.embedder import Embedder
from realm_core.model.encoder import Encoder
from realm_core.model.packed import Packed
from realm_core.model.reader import Bodies, Reader

# Weights large enough that attention is not uniform, as it nearly is with BERT's own 0.02.
SMALL = Architecture(
    hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512, initializer_range=0.06
)
_DEFAULTS = ModelConfig()
_SCORE_SCALE = 10.0  # of f(x, z) = scale × cosine: a prior that is neither uniform nor one-hot
_WORD_SHARE = 0.6  # share of the wordpieces that start a word


@dataclass(frozen=True)
class Networks:
    """name: of the weights. On the CPU, float32, without dropout; embeddings frozen, as in training."""

    name: str
    embedder: Embedder
    encoder: Encoder
    reader: Reader

    @property
    def config(self) -> Architecture:
        """The architecture of all three."""
        return self.embedder.bert.config


def default_networks(base: str | None = None) -> Networks:
    """Networks with the weights of `base` (a package or a folder; None: the default package), or a small BERT with
    random weights if the default package is not installed."""
    if base is None and importlib.util.find_spec(_DEFAULTS.base) is None:
        return random_networks("a small BERT of random weights", SMALL)
    name = base or _DEFAULTS.base
    return _networks(name, [base_bert(name) for _ in range(3)])


def random_networks(name: str, config: Architecture) -> Networks:
    """Networks with random weights, always the same."""
    torch.manual_seed(0)
    networks = _networks(name, [Bert(config).eval() for _ in range(3)])
    for part in (networks.embedder, networks.encoder, networks.reader):
        part.allow_int8 = False  # its scales are fitted on sentences, which need a vocabulary
    return networks


def _networks(name: str, berts: Sequence[Bert]) -> Networks:
    torch.manual_seed(0)
    embedder = Embedder(berts[0], _DEFAULTS.dimension, _DEFAULTS.pooling)
    embedder.norm.weight.data.fill_(math.sqrt(_SCORE_SCALE / _DEFAULTS.dimension))
    networks = Networks(
        name, embedder, Encoder(berts[1]), Reader(berts[2], _DEFAULTS.span_hidden, _DEFAULTS.span_wordpieces)
    )
    for part in (networks.embedder, networks.encoder, networks.reader):
        part.bert.embeddings.requires_grad_(False)
        part.eval()
    return networks


@dataclass(frozen=True)
class Sample:
    """One step's worth of sequences.

    queries: join(x), B of them; blocks: join(z), P of them; pairs: join(x, z), P of them.
    masked_BKJ: positions in T of the pairs; targets_BJ: wordpieces that stood there.
    matrix_BKD: frozen vectors of each sentence's blocks, as fine-tuning has them.
    bodies: positions of the pairs' bodies; right_N: bool, a right answer starts at this wordpiece, whatever its width.
    """

    queries: Packed
    blocks: Packed
    pairs: Packed
    masked_BKJ: Tensor
    targets_BJ: Tensor
    matrix_BKD: Tensor
    bodies: Bodies
    right_N: Tensor

    def to(self, device: torch.device) -> Sample:
        return Sample(*(getattr(self, field.name).to(device) for field in fields(self)))


def draw_sample(
    config: Architecture, *, sentences: int, k: int, query: tuple[int, int], body: tuple[int, int], masks: int
) -> Sample:
    """Random wordpieces, lengths and masks, always the same.

    query, body: shortest and longest, without special tokens.
    """
    draw = torch.Generator().manual_seed(0)

    def lengths(count: int, shortest: int, longest: int) -> list[int]:
        return torch.randint(shortest, longest + 1, (count,), generator=draw).tolist()

    def packed(pairs: list[tuple[int, int]]) -> Packed:
        """Sequences of a first and a second segment of these lengths."""
        ids = [torch.randint(config.vocab_size, (a + b,), generator=draw).tolist() for a, b in pairs]
        return Packed.of(ids, [[0] * a + [1] * b for a, b in pairs])

    asked_B = lengths(sentences, *query)
    body_P = lengths(sentences * k, *body)
    pairs = packed([(asked_B[pair // k] + 2, body + 1) for pair, body in enumerate(body_P)])  # [CLS] x [SEP], z [SEP]
    starts_BK = torch.tensor(pairs.starts()).view(sentences, k)
    mask_BJ = torch.stack([1 + torch.randperm(asked, generator=draw)[:masks] for asked in asked_B])
    first_P = [start + asked_B[pair // k] + 2 for pair, start in enumerate(pairs.starts())]
    total = sum(body_P)
    begins_N = torch.rand(total, generator=draw) < _WORD_SHARE
    first_N = torch.tensor([i for length in body_P for i in range(length)])
    begins_N |= first_N == 0
    room_N = torch.tensor([length - i for length in body_P for i in range(length)])
    return Sample(
        queries=packed([(asked + 2, 0) for asked in asked_B]),
        blocks=packed([(2, body + 1) for body in body_P]),
        pairs=pairs,
        masked_BKJ=starts_BK.unsqueeze(-1) + mask_BJ.unsqueeze(1),
        targets_BJ=torch.randint(config.vocab_size, mask_BJ.shape, generator=draw),
        matrix_BKD=torch.randn(sentences, k, _DEFAULTS.dimension, generator=draw)
        * math.sqrt(_SCORE_SCALE / _DEFAULTS.dimension),
        bodies=Bodies(
            positions_N=torch.tensor([p + i for p, length in zip(first_P, body_P, strict=True) for i in range(length)]),
            room_N=room_N,
            word_start_N=begins_N,
            word_end_N=torch.cat([begins_N[1:], torch.ones(1, dtype=torch.bool)]) | (room_N == 1),
            lengths=tuple(body_P),
        ),
        right_N=begins_N & (torch.rand(total, generator=draw) < 0.1),
    )
