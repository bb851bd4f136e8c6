"""Floating-point operations of the matrix products of BERT and of the modules on top of it.

A multiply-add counts as two. Padding does not count, so a utilisation computed from these numbers measures only useful
work. Embeddings, LayerNorm, GELU, softmax and the optimiser are not included.

Legend: L wordpieces of a sequence, W hidden width, F inner width, V vocabulary, D dimension, M masked wordpieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from realm_core.model.bert import Architecture


def encoder_flops(config: Architecture, lengths: Sequence[int]) -> float:
    """FLOPs of BERT's layers over sequences of `lengths` wordpieces.

    A layer over L wordpieces: projections 4 · 2LW², attention 2 · 2L²W (scores and weighted sum), feed-forward
    2 · 2LWF.
    """
    width, inner = config.hidden_size, config.intermediate_size
    per_layer = sum(8.0 * n * width**2 + 4.0 * n**2 * width + 4.0 * n * width * inner for n in lengths)
    return float(config.num_hidden_layers * per_layer)


def encoder_training_flops(config: Architecture, lengths: Sequence[int]) -> float:
    """FLOPs of the same, forward and backward, if the embeddings are not trained.

    The gradient of a product takes two products of the same size; queries, keys and values of the first layer take
    only one, because their inputs need no gradient.
    """
    untrained = 6.0 * sum(lengths) * config.hidden_size**2
    return float(3.0 * encoder_flops(config, lengths) - untrained)


@dataclass(frozen=True)
class PretrainingWork:
    """The sizes of one step of pre-training.

    queries, blocks, pairs: wordpieces of each join(x), of each embedded block, of each join(x, z).
    masks: masked wordpieces M of all pairs. dimension: D.
    """

    queries: tuple[int, ...]
    blocks: tuple[int, ...]
    pairs: tuple[int, ...]
    masks: int
    dimension: int

    def flops(self, config: Architecture) -> float:
        """FLOPs, forward and backward; the word embeddings, and so the decoder, are not trained."""
        width = config.hidden_size
        embedded = [*self.queries, *self.blocks]
        projection = 3.0 * 2.0 * len(embedded) * width * self.dimension
        head = self.masks * (3.0 * 2.0 * width**2 + 2.0 * 2.0 * width * config.vocab_size)
        return float(encoder_training_flops(config, [*embedded, *self.pairs]) + projection + head)
