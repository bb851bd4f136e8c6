"""How many floating-point operations a computation needs: the matrix products of BERT and of what is built on it.

A multiplication and an addition count as two. Only wordpieces count, never padding, so a share of a machine's peak that
is made of these numbers falls with every operation that was not needed. Embeddings, LayerNorm, GELU, softmax and the
optimizer are left out.

Legend: L wordpieces of a sequence, W hidden width, F inner width, V vocabulary, D dimension, M masked wordpieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from realm_core.model.bert import Architecture


def encoder_flops(config: Architecture, lengths: Sequence[int]) -> float:
    """Of BERT's layers over sequences of `lengths` wordpieces.

    A layer over L wordpieces: projections 4 · 2LW², attention 2 · 2L²W (scores and weighted sum), feed-forward
    2 · 2LWF.
    """
    width, inner = config.hidden_size, config.intermediate_size
    per_layer = sum(8.0 * n * width**2 + 4.0 * n**2 * width + 4.0 * n * width * inner for n in lengths)
    return float(config.num_hidden_layers * per_layer)


def encoder_training_flops(config: Architecture, lengths: Sequence[int]) -> float:
    """Of the same, forward and backward, where the embeddings of words, positions and segments are not trained.

    The gradient of a product is two products of its size; queries, keys and values of the first layer need but one,
    because nothing in front of them learns.
    """
    untrained = 6.0 * sum(lengths) * config.hidden_size**2
    return float(3.0 * encoder_flops(config, lengths) - untrained)


@dataclass(frozen=True)
class PretrainingWork:
    """What one step of pre-training computes with.

    queries, blocks, pairs: wordpieces of each join(x), of each block that is embedded, of each join(x, z).
    masks: masked wordpieces M of all pairs. dimension: D.
    """

    queries: tuple[int, ...]
    blocks: tuple[int, ...]
    pairs: tuple[int, ...]
    masks: int
    dimension: int

    def flops(self, config: Architecture) -> float:
        """Forward and backward; the word embeddings, and with them the decoder's matrix, are not trained."""
        width = config.hidden_size
        embedded = [*self.queries, *self.blocks]
        projection = 3.0 * 2.0 * len(embedded) * width * self.dimension
        head = self.masks * (3.0 * 2.0 * width**2 + 2.0 * 2.0 * width * config.vocab_size)
        return float(encoder_training_flops(config, [*embedded, *self.pairs]) + projection + head)
