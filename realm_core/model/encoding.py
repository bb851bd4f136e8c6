"""The base class of embedder, encoder and reader: a BERT over packed sequences, with a faster path for inference."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from realm_core.model.bert import Bert
from realm_core.model.device import fast_dtype
from realm_core.model.inference import InferenceEncoder, int8_is_faster
from realm_core.model.packed import Packed, encode
from realm_core.tensors import copied


class BertModule(nn.Module):
    """A module around `bert`.

    allow_int8: whether inference may quantise to int8 where that is faster. Stored vectors tolerate it, because a row's
    result does not depend on its batch: the same block always has the same vector.
    """

    allow_int8 = True

    def __init__(self, bert: Bert) -> None:
        super().__init__()
        self.bert = bert
        self._inference: InferenceEncoder | None = None

    def encode(self, batch: Packed) -> Tensor:
        """Hidden states [T, W] of BERT's last layer."""
        return encode(self.bert, batch) if self._inference is None else self._inference(batch)

    @property
    def product(self) -> str:
        """The precision of matrix products: int8, bfloat16 or float32."""
        if self._inference is not None:
            return self._inference.product
        return str(self.bert.dtype).removeprefix("torch.")

    def for_inference(self, device: torch.device) -> None:
        """Move to `device` and use the fastest implementation there; the module cannot be trained afterwards.

        Only BERT's layers use low precision; the modules on top of them are small and stay in float32.
        """
        self.to(device).eval()
        dtype = fast_dtype(device)
        for parameter in self.bert.parameters():
            if parameter.dtype != dtype:
                parameter.data = copied(parameter.data, dtype)
        int8 = self.allow_int8 and int8_is_faster()
        if InferenceEncoder.supports(self.bert, int8=int8):
            with torch.no_grad():
                self._inference = InferenceEncoder(self.bert, int8=int8)
