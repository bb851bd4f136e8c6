"""BERT over sequences laid end to end: no wordpiece of padding is ever worked on.

transformers' `BertModel` supplies weights and layers; here its layers run once over one long row of T wordpieces,
and attention alone is told where the sequences begin. Results equal the padded computation (a test compares them).

Legend: B sequences, T wordpieces of all of them together, L longest sequence, H heads, W hidden width.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AttentionInterface, BertModel

try:  # flash attention over sequences of any lengths; torch 2.10 and later
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # pragma: no cover
    varlen_attn = None  # type: ignore[assignment]

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
            ids_T=_end_to_end(ids, sum(lengths)),
            segments_T=torch.zeros(sum(lengths), dtype=torch.long)
            if segments is None
            else _end_to_end(segments, sum(lengths)),
            positions_T=torch.cat([torch.arange(length) for length in lengths]),
            lengths=lengths,
        )

    def to(self, device: torch.device) -> Packed:
        """The same on another device."""
        return Packed(self.ids_T.to(device), self.segments_T.to(device), self.positions_T.to(device), self.lengths)

    def starts(self) -> list[int]:
        """Position in T of each sequence's first wordpiece."""
        return list(itertools.accumulate(self.lengths, initial=0))[:-1]

    def layout(self) -> Layout:
        """Where the sequences lie, for attention on the device that the wordpieces are on."""
        return Layout(self.lengths, self.ids_T.device)


class Layout:
    """Boundaries of packed sequences; what a kernel needs of them is made once for all layers."""

    def __init__(self, lengths: tuple[int, ...], device: torch.device) -> None:
        self.lengths = lengths
        self._device = device

    @cached_property
    def longest(self) -> int:
        return max(self.lengths)

    @cached_property
    def bounds_B1(self) -> Tensor:
        """Where each sequence begins and, last, where all end; int32 [B + 1]."""
        bounds = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int32)
        return torch.from_numpy(bounds).to(self._device)

    @cached_property
    def places_T(self) -> Tensor:
        """Place of each wordpiece among B · L padded ones; int64 [T]."""
        lengths_B = np.asarray(self.lengths)
        shift_B = np.arange(len(lengths_B)) * self.longest - np.concatenate([[0], np.cumsum(lengths_B)[:-1]])
        return torch.from_numpy(np.arange(lengths_B.sum()) + np.repeat(shift_B, lengths_B)).to(self._device)

    @cached_property
    def present_BL(self) -> Tensor:
        """bool [B, L], False at padding."""
        lengths_B1 = torch.tensor(self.lengths, device=self._device).unsqueeze(1)
        return torch.arange(self.longest, device=self._device) < lengths_B1


def _end_to_end(sequences: Sequence[Sequence[int]], total: int) -> Tensor:
    return torch.from_numpy(np.fromiter(itertools.chain.from_iterable(sequences), np.int64, total))


def _attend(
    module: torch.nn.Module,
    query_1HTD: Tensor,
    key_1HTD: Tensor,
    value_1HTD: Tensor,
    attention_mask: Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    layout: Layout,
    **_: object,
) -> tuple[Tensor, None]:
    """Attention within each sequence alone; returns [1, T, H, D], the layout that transformers expects."""
    if not query_1HTD.is_cuda:  # on a CPU a call per sequence wastes nothing and stays in cache
        lengths, dtype = layout.lengths, query_1HTD.dtype
        if torch.is_grad_enabled():  # there torch's backward kernel takes several times as long in bfloat16
            query_1HTD, key_1HTD, value_1HTD = query_1HTD.float(), key_1HTD.float(), value_1HTD.float()
        with torch.autocast("cpu", enabled=False):
            context_1HTD = torch.cat(
                [
                    F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, scale=scaling)
                    for query, key, value in zip(
                        query_1HTD.split(lengths, 2),
                        key_1HTD.split(lengths, 2),
                        value_1HTD.split(lengths, 2),
                        strict=True,
                    )
                ],
                dim=2,
            )
        return context_1HTD.to(dtype).transpose(1, 2), None
    if varlen_attn is not None and query_1HTD.dtype != torch.float32 and dropout == 0.0:
        # transformers' scaling is 1/√D, which is the kernel's own.
        context_THD = varlen_attn(
            query_1HTD[0].transpose(0, 1),
            key_1HTD[0].transpose(0, 1),
            value_1HTD[0].transpose(0, 1),
            layout.bounds_B1,
            layout.bounds_B1,
            layout.longest,
            layout.longest,
        )
        assert isinstance(context_THD, Tensor)
        return context_THD.unsqueeze(0), None
    return _attend_padded(query_1HTD, key_1HTD, value_1HTD, layout, dropout, scaling), None


def _attend_padded(
    query_1HTD: Tensor, key_1HTD: Tensor, value_1HTD: Tensor, layout: Layout, dropout: float, scaling: float | None
) -> Tensor:
    """One kernel over sequences padded for it alone: where flash attention cannot serve. Returns [1, T, H, D]."""
    count, longest = len(layout.lengths), layout.longest

    def spread(packed_1HTD: Tensor) -> Tensor:  # [1, H, T, D] → [B, H, L, D]
        packed_THD = packed_1HTD[0].transpose(0, 1)
        padded = packed_THD.new_zeros(count * longest, *packed_THD.shape[1:]).index_copy(0, layout.places_T, packed_THD)
        return padded.view(count, longest, *packed_THD.shape[1:]).transpose(1, 2)

    context_BHLD = F.scaled_dot_product_attention(
        spread(query_1HTD),
        spread(key_1HTD),
        spread(value_1HTD),
        attn_mask=layout.present_BL[:, None, None, :],
        dropout_p=dropout,
        scale=scaling,
    )
    return context_BHLD.transpose(1, 2).flatten(0, 1)[layout.places_T].unsqueeze(0)


AttentionInterface.register(_ATTENTION, _attend)


def encode(bert: BertModel, batch: Packed) -> Tensor:
    """Hidden states [T, W] of the last layer, in the dtype of `bert`'s weights."""
    bert.config._attn_implementation = _ATTENTION
    embeddings_1TW = bert.embeddings(
        input_ids=batch.ids_T.unsqueeze(0),
        token_type_ids=batch.segments_T.unsqueeze(0),
        position_ids=batch.positions_T.unsqueeze(0),
    )
    hidden_1TW: Tensor = bert.encoder(embeddings_1TW, attention_mask=None, layout=batch.layout()).last_hidden_state
    return hidden_1TW.squeeze(0)
