"""Embed(·): text → vector. BERT → pooling → Dense(D) (paper, section 3.2) → LayerNorm (release); raw inner product."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from realm_core.model.bert import Bert
from realm_core.model.config import Pooling
from realm_core.model.encoding import BertModule
from realm_core.model.packed import Packed


class Embedder(BertModule):
    """One side of the retriever: the query embedder or the block embedder.

    The LayerNorm's gain sets the scale of f(x, z), and so how peaked the prior is.
    """

    def __init__(self, bert: Bert, dimension: int, pooling: Pooling) -> None:
        super().__init__(bert)
        width = bert.config.hidden_size
        self.pooler = nn.Linear(width, width) if pooling == "pooler" else None
        self.dense = nn.Linear(width, dimension)
        self.norm = nn.LayerNorm(dimension, eps=1e-12)
        self.pooling = pooling

    def pool(self, batch: Packed) -> Tensor:
        """Pooled hidden states [B, W], float32."""
        hidden_TW = self.encode(batch).float()
        if self.pooling != "mean":
            first_BW = hidden_TW[torch.tensor(batch.starts(), device=hidden_TW.device)]
            return first_BW if self.pooler is None else torch.tanh(self.pooler(first_BW)).float()
        lengths_B = torch.tensor(batch.lengths, device=hidden_TW.device)
        owner_T = torch.repeat_interleave(torch.arange(len(batch.lengths), device=hidden_TW.device), lengths_B)
        sums_BW = hidden_TW.new_zeros(len(batch.lengths), hidden_TW.shape[1]).index_add(0, owner_T, hidden_TW)
        return sums_BW / lengths_B.unsqueeze(1)

    def project(self, pooled_BW: Tensor) -> Tensor:
        """Vectors [B, D], float32, from pooled states."""
        vectors_BD: Tensor = self.norm(self.dense(pooled_BW.to(self.dense.weight.dtype)).float())
        return vectors_BD

    def forward(self, batch: Packed) -> Tensor:
        """Vectors [B, D], float32."""
        vectors_BD: Tensor = self.project(self.pool(batch))
        return vectors_BD


def principal_projection(pooled_NW: Tensor, dimension: int) -> Tensor:
    """The D × W projection that best preserves the inner products of unit-length pooled states.

    Its rows are the leading right singular vectors of the states (uncentred PCA). It initialises Dense(D) of an
    embedder whose BERT is a sentence encoder already.
    """
    unit_NW = torch.nn.functional.normalize(pooled_NW.double(), dim=1)
    _values_W, vectors_WW = torch.linalg.eigh(unit_NW.T @ unit_NW)
    projection_DW: Tensor = vectors_WW[:, -dimension:].T.flip(0).float()
    return projection_DW
