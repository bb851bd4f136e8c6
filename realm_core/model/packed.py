"""BERT over sequences laid end to end: no wordpiece of padding is ever worked on.

transformers' `BertModel` supplies weights and layers; here its layers run once over one long row of T wordpieces,
and attention alone is told where the sequences begin. Results equal the padded computation (a test compares them).

Legend: B sequences, T wordpieces of all of them together, L longest sequence, H heads, W hidden width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface, BertModel

_ATTENTION = "realm_packed"


@dataclass(frozen=True)
class Packed:
    """B sequences of wordpieces, end to end.

    ids_T, segments_T, positions_T: int64; lengths: B positive integers that sum to T.
    """

    ids_T: Tensor
    segments_T: Tensor
    positions_T: Tensor
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, ids: Sequence[Sequence[int]], segments: Sequence[Sequence[int]] | None = None) -> Packed:
        """Lay the sequences `ids` (with `segments`, default 0) end to end."""
        lengths = tuple(len(sequence) for sequence in ids)
        return cls(
            ids_T=torch.tensor([i for sequence in ids for i in sequence], dtype=torch.long),
            segments_T=torch.zeros(sum(lengths), dtype=torch.long)
            if segments is None
            else torch.tensor([i for sequence in segments for i in sequence], dtype=torch.long),
            positions_T=torch.cat([torch.arange(length) for length in lengths]),
            lengths=lengths,
        )

    def to(self, device: torch.device) -> Packed:
        """The same on another device."""
        return Packed(self.ids_T.to(device), self.segments_T.to(device), self.positions_T.to(device), self.lengths)

    def starts(self) -> list[int]:
        """Position in T of each sequence's first wordpiece."""
        starts, start = [], 0
        for length in self.lengths:
            starts.append(start)
            start += length
        return starts


def _attend(
    module: torch.nn.Module,
    query_1HTD: Tensor,
    key_1HTD: Tensor,
    value_1HTD: Tensor,
    attention_mask: Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    lengths: tuple[int, ...],
    **_: object,
) -> tuple[Tensor, None]:
    """Attention within each sequence alone; returns [1, T, H, D], the layout that transformers expects."""
    if query_1HTD.is_cuda:  # one kernel over sequences padded for it alone; a loop would leave the device idle
        context_1HTD = _attend_padded(query_1HTD, key_1HTD, value_1HTD, lengths, dropout, scaling)
    else:  # on a CPU a call per sequence wastes nothing and stays in cache
        context_1HTD = torch.cat(
            [
                F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, scale=scaling)
                for query, key, value in zip(
                    query_1HTD.split(lengths, 2), key_1HTD.split(lengths, 2), value_1HTD.split(lengths, 2), strict=True
                )
            ],
            dim=2,
        )
    return context_1HTD.transpose(1, 2), None


def _attend_padded(
    query_1HTD: Tensor,
    key_1HTD: Tensor,
    value_1HTD: Tensor,
    lengths: tuple[int, ...],
    dropout: float,
    scaling: float | None,
) -> Tensor:
    present_BL = torch.arange(max(lengths), device=query_1HTD.device) < torch.tensor(
        lengths, device=query_1HTD.device
    ).unsqueeze(1)

    def spread(packed_1HTD: Tensor) -> Tensor:  # [1, H, T, D] → [B, H, L, D]
        return pad_sequence(list(packed_1HTD[0].transpose(0, 1).split(lengths)), batch_first=True).transpose(1, 2)

    context_BHLD = F.scaled_dot_product_attention(
        spread(query_1HTD),
        spread(key_1HTD),
        spread(value_1HTD),
        attn_mask=present_BL[:, None, None, :],
        dropout_p=dropout,
        scale=scaling,
    )
    return context_BHLD.transpose(1, 2)[present_BL].transpose(0, 1).unsqueeze(0)


AttentionInterface.register(_ATTENTION, _attend)


def encode(bert: BertModel, batch: Packed) -> Tensor:
    """Hidden states [T, W] of the last layer, in the dtype of `bert`'s weights."""
    bert.config._attn_implementation = _ATTENTION
    embeddings_1TW = bert.embeddings(
        input_ids=batch.ids_T.unsqueeze(0),
        token_type_ids=batch.segments_T.unsqueeze(0),
        position_ids=batch.positions_T.unsqueeze(0),
    )
    hidden_1TW: Tensor = bert.encoder(embeddings_1TW, attention_mask=None, lengths=batch.lengths).last_hidden_state
    return hidden_1TW.squeeze(0)
