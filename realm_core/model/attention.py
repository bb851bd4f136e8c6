"""Attention over packed sequences: each wordpiece attends only to its own sequence.

On a CPU one sequence at a time; on CUDA variable-length flash attention, or, where that is not supported, one kernel
over padded sequences.

Legend: B sequences, T wordpieces of all sequences, L longest sequence, H heads, D head width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

_ALIGNED = 16


@cache
def _flash() -> Callable[..., object] | None:
    """Variable-length flash attention (torch 2.10 or later).

    Imported lazily: it loads torch's compiler, which takes longer than torch itself.
    """
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:  # pragma: no cover
        return None
    return varlen_attn


class Layout:
    """Boundaries of packed sequences; derived tensors are computed once for all layers.

    lengths: B positive integers that sum to T.
    """

    def __init__(self, lengths: tuple[int, ...], device: torch.device) -> None:
        self.lengths = lengths
        self._device = device

    @cached_property
    def longest(self) -> int:
        """On a GPU rounded up: its kernels copy a bias whose rows are not aligned."""
        longest = max(self.lengths)
        return longest if self._device.type == "cpu" else -(-longest // _ALIGNED) * _ALIGNED

    @cached_property
    def bounds_B1(self) -> Tensor:
        """Offset of each sequence, then T; int32 [B + 1]."""
        bounds = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int32)
        return torch.from_numpy(bounds).to(self._device)

    @cached_property
    def places_T(self) -> Tensor:
        """Index of each wordpiece in the padded [B · L] layout; int64 [T]."""
        lengths_B = np.asarray(self.lengths)
        shift_B = np.arange(len(lengths_B)) * self.longest - np.concatenate([[0], np.cumsum(lengths_B)[:-1]])
        return torch.from_numpy(np.arange(lengths_B.sum()) + np.repeat(shift_B, lengths_B)).to(self._device)

    @cached_property
    def present_BL(self) -> Tensor:
        """bool [B, L], False at padding."""
        lengths_B1 = torch.tensor(self.lengths, device=self._device).unsqueeze(1)
        return torch.arange(self.longest, device=self._device) < lengths_B1


def flash_serves(dtype: torch.dtype) -> bool:
    """Whether variable-length flash attention supports `dtype` (on CUDA, without dropout)."""
    return dtype in (torch.bfloat16, torch.float16) and _flash() is not None


def attend(
    query_THD: Tensor,
    key_THD: Tensor,
    value_THD: Tensor,
    layout: Layout,
    bias_HLL: Tensor | None = None,
    *,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(q · k / √D + bias) · v within each sequence [T, H, D].

    bias_HLL: relative position bias, the same for all sequences; dropout: of the attention weights.
    """
    if not query_THD.is_cuda:
        return _per_sequence(query_THD, key_THD, value_THD, layout, bias_HLL, dropout)
    flash = None if dropout or bias_HLL is not None or not flash_serves(query_THD.dtype) else _flash()
    if flash is None:
        return _padded(query_THD, key_THD, value_THD, layout, bias_HLL, dropout)
    bounds_B1, longest = layout.bounds_B1, layout.longest
    context_THD = flash(query_THD, key_THD, value_THD, bounds_B1, bounds_B1, longest, longest)
    assert isinstance(context_THD, Tensor)
    return context_THD


def _per_sequence(
    query_THD: Tensor, key_THD: Tensor, value_THD: Tensor, layout: Layout, bias_HLL: Tensor | None, dropout: float
) -> Tensor:
    """One call per sequence: no padding, and on a CPU the scores stay in cache."""
    dtype = query_THD.dtype
    qkv = (query_THD, key_THD, value_THD)
    if torch.is_grad_enabled() and dtype.itemsize < 4:  # the backward kernel is several times slower in half precision
        qkv = (query_THD.float(), key_THD.float(), value_THD.float())
    with torch.autocast("cpu", enabled=False):
        contexts = [
            F.scaled_dot_product_attention(
                query_1HLD, key_1HLD, value_1HLD, attn_mask=_bias_of(bias_HLL, query_1HLD), dropout_p=dropout
            )
            for query_1HLD, key_1HLD, value_1HLD in zip(*(_each(rows_THD, layout) for rows_THD in qkv), strict=True)
        ]
    return torch.cat([context_1HLD[0].transpose(0, 1) for context_1HLD in contexts]).to(dtype)


def _bias_of(bias_HLL: Tensor | None, query_1HLD: Tensor) -> Tensor | None:
    """[1, H, L, L], the bias cropped to the length of this sequence."""
    if bias_HLL is None:
        return None
    length = query_1HLD.shape[2]
    return bias_HLL[:, :length, :length].to(query_1HLD.dtype).unsqueeze(0)


def _each(rows_THD: Tensor, layout: Layout) -> Iterator[Tensor]:
    """[1, H, L, D] of each sequence."""
    return (own_LHD.transpose(0, 1).unsqueeze(0) for own_LHD in rows_THD.split(layout.lengths))


def _padded(
    query_THD: Tensor, key_THD: Tensor, value_THD: Tensor, layout: Layout, bias_HLL: Tensor | None, dropout: float
) -> Tensor:
    count, longest = len(layout.lengths), layout.longest

    def spread(packed_THD: Tensor) -> Tensor:  # [T, H, D] → [B, H, L, D]
        padded = packed_THD.new_zeros(count * longest, *packed_THD.shape[1:]).index_copy(0, layout.places_T, packed_THD)
        return padded.view(count, longest, *packed_THD.shape[1:]).transpose(1, 2)

    mask = layout.present_BL[:, None, None, :]
    if bias_HLL is not None:
        mask = torch.where(mask, bias_HLL.to(query_THD.dtype), -torch.inf)  # [B, H, L, L]
    # cuDNN's kernels, torch's first choice on some GPUs, are made anew for each shape, and every batch has its own.
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        context_BHLD = F.scaled_dot_product_attention(
            spread(query_THD), spread(key_THD), spread(value_THD), attn_mask=mask, dropout_p=dropout
        )
    return context_BHLD.transpose(1, 2).flatten(0, 1).index_select(0, layout.places_T)
