"""The reader: scores every span of a block as the answer to a question.

Paper, section 3.2: p(y|z,x) ∝ Σ_s exp MLP([h_start(s); h_end(s)]). MLP as in the released code: Dense → ReLU →
LayerNorm → Dense(1); the first layer over the concatenation is the sum of two layers, one per end.

Legend: B (question, block) pairs, T wordpieces of all pairs, N body wordpieces of all pairs, M longest span, H MLP
width, S spans.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from realm_core.model.bert import Bert
from realm_core.model.encoding import BertModule
from realm_core.model.packed import Packed

_SPANS_AT_ONCE = 1024


@dataclass(frozen=True)
class Bodies:
    """The block bodies in a packed batch of pairs.

    positions_N:   position in T of each body wordpiece.
    room_N:        the longest span that starts at this wordpiece: body wordpieces up to the end of its sentence, or of
                   the block.
    word_start_N:  bool, a word starts here; word_end_N: bool, a word ends here. Spans consist of whole words.
    lengths:       body wordpieces of each pair; they sum to N.
    """

    positions_N: Tensor
    room_N: Tensor
    word_start_N: Tensor
    word_end_N: Tensor
    lengths: tuple[int, ...]

    def to(self, device: torch.device) -> Bodies:
        return Bodies(
            self.positions_N.to(device),
            self.room_N.to(device),
            self.word_start_N.to(device),
            self.word_end_N.to(device),
            self.lengths,
        )


class Reader(BertModule):
    """BERT over `[CLS] x [SEP] (title [SEP]) body [SEP]` and the span MLP.

    not_here: score spans relative to the block's "not here" (null) score; the released code does not.
    """

    def __init__(self, bert: Bert, hidden: int, max_width: int, *, not_here: bool = True) -> None:
        super().__init__(bert)
        self.max_width, self.not_here = max_width, not_here
        self.ends = nn.Linear(bert.config.hidden_size, 2 * hidden)  # both halves of the first Dense in one product
        self.norm = nn.LayerNorm(hidden, eps=1e-3)  # ε of the released code
        self.score = nn.Linear(hidden, 1)

    def forward(self, pairs: Packed, bodies: Bodies) -> Tensor:
        """Span logits [N, M], float32: entry (n, m) is the span of m + 1 wordpieces that starts at n.

        With `not_here`, relative to the block's null score: the MLP's score of [CLS] as a span. −inf where a span would
        exceed its room or split a word.
        """
        hidden_TW = self.encode(pairs)
        start_NH, end_NH = self._halves(hidden_TW.index_select(0, bodies.positions_N))
        owner_N = torch.repeat_interleave(
            torch.arange(len(bodies.lengths), device=hidden_TW.device),
            torch.tensor(bodies.lengths, device=hidden_TW.device),
        )
        # Only spans of whole words are scored: two in five of all.
        first_S, width_S = self._spans(bodies).nonzero(as_tuple=True)
        last_S = first_S + width_S
        logits_S = torch.cat(
            [
                self._mlp(start_NH.index_select(0, first), end_NH.index_select(0, last))
                for first, last in zip(self._chunks(first_S), self._chunks(last_S), strict=True)
            ]
        )
        if self.not_here:
            starts_B = torch.tensor(pairs.starts(), device=hidden_TW.device)
            null_B = self._mlp(*self._halves(hidden_TW[starts_B]))
            logits_S = logits_S - null_B.index_select(0, owner_N[first_S])
        logits_NM = logits_S.new_full((len(owner_N), self._widest(bodies)), -math.inf)
        return logits_NM.index_put((first_S, width_S), logits_S)

    def _widest(self, bodies: Bodies) -> int:
        return min(self.max_width, max(1, max(bodies.lengths)))  # bodies may be empty

    def _spans(self, bodies: Bodies) -> Tensor:
        """[N, M], bool: whether the span of m + 1 wordpieces from n consists of whole words and fits its room."""
        count, device = len(bodies.room_N), bodies.room_N.device
        width_M = torch.arange(self._widest(bodies), device=device)
        last_NM = (torch.arange(count, device=device).unsqueeze(1) + width_M).clamp(max=count - 1)
        inside_NM = bodies.room_N.unsqueeze(1) > width_M
        return inside_NM & bodies.word_start_N.unsqueeze(1) & bodies.word_end_N[last_NM]

    def _halves(self, hidden_NW: Tensor) -> tuple[Tensor, Tensor]:
        start_NH, end_NH = self.ends(hidden_NW.to(self.ends.weight.dtype)).chunk(2, dim=1)
        return start_NH, end_NH

    def _mlp(self, start_SH: Tensor, end_SH: Tensor) -> Tensor:
        """Scores [S], float32: ReLU → LayerNorm → Dense(1); the last two are fused into one product and two moments.

        w · (γ (h − μ) / σ + β) + c = ((w γ) · h − μ Σ w γ) / σ + w · β + c.
        """
        hidden_SH = torch.relu_(start_SH + end_SH).float()
        gain_H = self.score.weight[0] * self.norm.weight
        width = hidden_SH.shape[1]
        # Three passes, of which each reads what a cache holds: a product with two columns takes six times as long.
        # Without autocast, because the variance is a difference of similar numbers.
        with torch.autocast(hidden_SH.device.type, enabled=False):
            product_S, mean_S = torch.mv(hidden_SH, gain_H.float()), hidden_SH.sum(1) / width
            variance_S = torch.linalg.vector_norm(hidden_SH, dim=1).square() / width - mean_S.square()
        rest = (self.score.weight[0] * self.norm.bias).sum() + self.score.bias[0]
        score_S: Tensor = (product_S - mean_S * gain_H.sum()) * torch.rsqrt(
            variance_S.clamp(min=0) + self.norm.eps
        ) + rest
        return score_S

    @staticmethod
    def _chunks(spans_S: Tensor) -> tuple[Tensor, ...]:
        """Chunks whose hidden layer fits a CPU's cache; a single one on a GPU or with gradients."""
        whole = spans_S.is_cuda or torch.is_grad_enabled()
        return tuple(spans_S.split(max(1, len(spans_S)) if whole else _SPANS_AT_ONCE))


def by_block(logits_NM: Tensor, lengths: tuple[int, ...], *, fill: float = -math.inf) -> Tensor:
    """Packed span values [N, M] as [B, S], where S = longest body × M, padded with `fill`."""
    device, width = logits_NM.device, logits_NM.shape[1]
    lengths_B = torch.tensor(lengths, device=device)
    owner_N = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths_B, output_size=len(logits_NM))
    place_N = torch.arange(len(logits_NM), device=device) - (lengths_B.cumsum(0) - lengths_B)[owner_N]
    padded_BLM = logits_NM.new_full((len(lengths), max(lengths), width), fill)
    return padded_BLM.index_put((owner_N, place_N), logits_NM).flatten(1)
