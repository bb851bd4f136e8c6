"""The knowledge-augmented encoder of pre-training: BERT over join(x, z) with BERT's masked-language head.

p(y_j | z, x) ∝ exp(w_jᵀ h_j): Dense → GELU → LayerNorm on the state at the mask, then the inner product with the word
embeddings plus a bias (paper, section 3.2; the head as in Devlin et al., 2019, its decoder tied to the embeddings).

Legend: T wordpieces of all pairs, M masked positions, V vocabulary, W hidden width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from realm_core.model.bert import ACTIVATIONS, Architecture, Bert
from realm_core.model.encoding import BertModule
from realm_core.model.packed import Packed


class MaskedLanguageHead(nn.Module):
    """BERT's masked-language head: transform and bias; the decoder is the word embeddings."""

    def __init__(self, config: Architecture) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_MW: Tensor, words_VW: Tensor) -> Tensor:
        """Scores of all words [M, V], float32."""
        state_MW = self.norm(self.activation(self.dense(hidden_MW.to(self.dense.weight.dtype))))
        logits_MV: Tensor = F.linear(state_MW.to(words_VW.dtype), words_VW).float() + self.bias.float()
        return logits_MV


class Encoder(BertModule):
    """Predicts words at masked positions. The word embeddings, and so the decoder, are not trained."""

    def __init__(self, bert: Bert) -> None:
        super().__init__(bert)
        self.head = MaskedLanguageHead(bert.config)

    def forward(self, pairs: Packed, masked_M: Tensor) -> Tensor:
        """log p(· | z, x) [M, V], float32, at the positions masked_M of T."""
        return torch.log_softmax(self.word_logits(self.encode(pairs)[masked_M]), dim=-1)

    def word_logits(self, hidden_MW: Tensor) -> Tensor:
        """Scores of all words [M, V], float32, from last-layer states at the masks."""
        logits_MV: Tensor = self.head(hidden_MW, self.bert.embeddings.word_embeddings.weight)
        return logits_MV
