"""Vectors in eight bits a number, as they are shipped with a model: half the size of float16.

A row's numbers are whole multiples, from −127 to 127, of 1/127 of its largest one, the row's scale.

Legend: R rows, D numbers of a row.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MOST = 127


def quantise(vectors_RD: Tensor) -> dict[str, Tensor]:
    """The tensors of a quantised shard: `multiples`, int8 [R, D], and `scales`, float16 [R, 1]."""
    vectors_RD = vectors_RD.float()
    scales_R1 = (vectors_RD.abs().amax(1, keepdim=True) / _MOST).half()
    divisors_R1 = torch.where(scales_R1 > 0, scales_R1.float(), 1.0)
    multiples_RD = (vectors_RD / divisors_R1).round().clamp(-_MOST, _MOST)
    return {"multiples": multiples_RD.to(torch.int8), "scales": scales_R1}


def dequantise(multiples: Tensor, scales: Tensor) -> Tensor:
    """The vectors, float16 [R, D], of what `quantise` made."""
    return (multiples.float() * scales.float()).half()
