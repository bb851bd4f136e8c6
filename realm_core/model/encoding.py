"""What embedder and reader have in common: a BERT over packed sequences, trained one way and served another."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from realm_core.model.bert import Bert
from realm_core.model.device import fast_dtype
from realm_core.model.inference import InferenceEncoder
from realm_core.model.packed import Packed, encode
from realm_core.tensors import copied


class Encoding(nn.Module):
    """A module around `bert`.

    int8_serves: whether inference may multiply in int8 where the machine can. Scores over which a softmax decides bear
    it; vectors that are stored and compared for as long as an index lives are kept as exact as they were made.
    """

    int8_serves = False

    def __init__(self, bert: Bert) -> None:
        super().__init__()
        self.bert = bert
        self._inference: InferenceEncoder | None = None

    def encode(self, batch: Packed) -> Tensor:
        """Hidden states [T, W] of BERT's last layer."""
        return encode(self.bert, batch) if self._inference is None else self._inference(batch)

    @property
    def product(self) -> str:
        """What the layers multiply in: int8, bfloat16 or float32."""
        if self._inference is not None:
            return self._inference.product
        return str(self.bert.dtype).removeprefix("torch.")

    def for_inference(self, device: torch.device) -> None:
        """Move to `device` and take the fastest way there, for good: no training afterwards.

        Only BERT's layers gain from low precision; what is built on them is small, and decides, so it stays float32.
        """
        self.to(device).eval()
        dtype = fast_dtype(device)
        for parameter in self.bert.parameters():
            if parameter.dtype != dtype:
                parameter.data = copied(parameter.data, dtype)
        if InferenceEncoder.serves(self.bert):
            with torch.no_grad():
                self._inference = InferenceEncoder(self.bert, int8=self.int8_serves)
