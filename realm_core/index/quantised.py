"""Vectors in six bits a number, as they are shipped with a model: three eighths of the size of float16.

A row's numbers are whole multiples, from −31 to 31, of 1/31 of its largest one, the row's scale. Four of them, each
plus 32, are packed into three bytes, first to last from the highest bit on; a row is filled up with zeros to whole
fours.

Legend: R rows, D numbers of a row, F fours of a row, P = 3 · F bytes.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MOST = 31
_ZERO = 32


def quantise(vectors_RD: Tensor) -> dict[str, Tensor]:
    """The tensors of a quantised shard: `packed`, uint8 [R, P], and `scales`, float16 [R, 1]."""
    vectors_RD = vectors_RD.float()
    scales_R1 = (vectors_RD.abs().amax(1, keepdim=True) / _MOST).half()
    divisors_R1 = torch.where(scales_R1 > 0, scales_R1.float(), 1.0)
    multiples_RD = (vectors_RD / divisors_R1).round().clamp(-_MOST, _MOST)
    filled = torch.nn.functional.pad(multiples_RD, (0, -multiples_RD.shape[1] % 4))
    first, second, third, fourth = (filled + _ZERO).to(torch.uint8).unflatten(1, (-1, 4)).unbind(2)
    bytes_RF = first << 2 | second >> 4, second << 4 | third >> 2, third << 6 | fourth
    return {"packed": torch.stack(bytes_RF, 2).flatten(1), "scales": scales_R1}


def dequantise(packed: Tensor, scales: Tensor, dimension: int) -> Tensor:
    """The vectors, float16 [R, D], of what `quantise` made."""
    first, second, third = packed.unflatten(1, (-1, 3)).unbind(2)
    sixes_RF = first >> 2, (first & 3) << 4 | second >> 4, (second & 15) << 2 | third >> 6, third & 63
    multiples_RD = torch.stack(sixes_RF, 2).flatten(1)[:, :dimension].float() - _ZERO
    return (multiples_RD * scales.float()).half()
