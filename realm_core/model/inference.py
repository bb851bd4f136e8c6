"""BERT's layers once more, for inference on a CPU alone: the same numbers in less time.

What `packed.encode` leaves on the table there: one product makes queries, keys and values; oneDNN keeps the weights in
the order in which its kernels read them, and adds bias, GELU and residual while the product is still in cache.

Products are in bfloat16, or in int8 at twice the speed: weights with one scale a row (which is how a packed model is
stored, so they lose little), states with one scale a product, taken from their least and largest values but for those
few inputs that are far louder than all others. States stay bfloat16 in between.

oneDNN is reached through operators that torch keeps to itself; where they are missing, `packed.encode` serves.

oneDNN compiles a kernel for every number of rows that it meets, which takes longer than multiplying a few rows more,
and keeps it. So T is rounded up to one of sixteen sizes between a power of two and the next. The rows behind T are the
first one again: they become what it becomes, and set no scale.

Legend: T wordpieces of all sequences, R rows worked on, W hidden width, H heads, D width of a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from realm_core.model.bert import Bert
from realm_core.model.packed import Packed, encode
from realm_core.text.wordpieces import Wordpieces

_USUAL_WORDPIECES = 512  # rows of a product for which the order of the weights is chosen
_LEAST_STEP, _STEP_BITS = 8, 5  # R is a multiple of 8, from 256 on of 16, from 512 on of 32, …
_LOUD = 8  # inputs of a product that are kept from setting its scale
_SENTENCES = [
    "Who wrote the music of the film that won the prize in 1994?",
    "The town lies on the river, 12 km north of the capital; in 2001 it had 4,500 inhabitants.",
]


class _Product(Protocol):
    """rows · weightᵀ + bias, then what `then` says: "none" or "gelu"."""

    def __call__(self, rows_TK: Tensor, then: str = "none") -> Tensor: ...


class _Sum(Protocol):
    """rows · weightᵀ + bias + residual."""

    def plus(self, rows_TK: Tensor, residual_TN: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class _Layer:
    """Products of a layer, and its norms."""

    qkv: _Product
    output: _Sum
    rise: _Product
    fall: _Sum
    attention_norm: nn.LayerNorm
    output_norm: nn.LayerNorm


class InferenceEncoder:
    """The last layer's hidden states [T, W] of a Bert on the CPU; copies its weights, takes no gradient.

    int8: multiply in int8 instead of bfloat16, where the processor adds such products up without overflow (VNNI).
    """

    def __init__(self, bert: Bert, *, int8: bool = False) -> None:
        self._embeddings = bert.embeddings
        self._heads = bert.config.num_attention_heads
        self._width = bert.config.hidden_size
        scale = (self._width // self._heads) ** -0.5  # of the attention scores, put into the queries' weights
        self.product = "int8" if int8 and _multiplies_int8() else "bfloat16"
        largest = _largest_inputs(bert) if self.product == "int8" else {}

        def product(weight: Tensor, bias: Tensor, source: nn.Linear) -> _Product:
            return _Int8(weight, bias, largest[source]) if largest else _Bfloat16(weight, bias)

        def plus(linear: nn.Linear) -> _Sum:
            if largest:
                return _Int8Sum(linear.weight, linear.bias, largest[linear])
            return _Bfloat16(linear.weight, linear.bias)

        self._layers = []
        for layer in bert.layers:
            own = layer.attention.self
            qkv_weight = torch.cat([own.query.weight * scale, own.key.weight, own.value.weight])
            qkv_bias = torch.cat([own.query.bias * scale, own.key.bias, own.value.bias])
            rise = layer.intermediate.dense
            self._layers.append(
                _Layer(
                    qkv=product(qkv_weight, qkv_bias, own.query),
                    output=plus(layer.attention.output.dense),
                    rise=product(rise.weight, rise.bias, rise),
                    fall=plus(layer.output.dense),
                    attention_norm=layer.attention.output.LayerNorm,
                    output_norm=layer.output.LayerNorm,
                )
            )

    @staticmethod
    def serves(bert: Bert) -> bool:
        """Whether this machine, torch and model are what it is written for."""
        weight = bert.embeddings.word_embeddings.weight
        return bool(
            weight.device.type == "cpu"
            and weight.dtype == torch.bfloat16
            and bert.config.hidden_act == "gelu"
            and torch.backends.mkldnn.is_available()
            and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
            and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        )

    def __call__(self, batch: Packed) -> Tensor:
        """Hidden states [T, W], bfloat16."""
        count = len(batch.ids_T)
        rows_R = torch.arange(_rounded(count))
        rows_R[count:] = 0
        hidden_RW: Tensor = self._embeddings(batch.ids_T[rows_R], batch.segments_T[rows_R], batch.positions_T[rows_R])
        for layer in self._layers:
            context_RW = self._attend(layer.qkv(hidden_RW), batch.lengths)
            hidden_RW = layer.attention_norm(layer.output.plus(context_RW, hidden_RW))
            raised_RI = layer.rise(hidden_RW, "gelu")
            hidden_RW = layer.output_norm(layer.fall.plus(raised_RI, hidden_RW))
        return hidden_RW[:count]

    def _attend(self, qkv_RW: Tensor, lengths: tuple[int, ...]) -> Tensor:
        """Two plain products in float32: on heads as narrow as these, faster than the fused kernel, and more exact."""
        count = sum(lengths)
        qkv_T3HD = qkv_RW[:count].view(-1, 3, self._heads, self._width // self._heads)
        qkv_3HTD = qkv_T3HD.permute(1, 2, 0, 3).float().contiguous()
        contexts = []
        for query_HLD, key_HLD, value_HLD in (own.unbind() for own in qkv_3HTD.split(lengths, dim=2)):
            weights_HLL = torch.softmax(torch.bmm(query_HLD, key_HLD.transpose(1, 2)), dim=-1)
            contexts.append(torch.bmm(weights_HLL, value_HLD))
        contexts.append(contexts[0][:, :1].expand(-1, len(qkv_RW) - count, -1))
        context_RHD = torch.cat(contexts, dim=1).transpose(0, 1)
        return context_RHD.reshape(-1, self._width).to(qkv_RW.dtype)


def _rounded(count: int) -> int:
    """R: T rounded up to a multiple of about its sixteenth."""
    step = max(_LEAST_STEP, 1 << max(0, count.bit_length() - _STEP_BITS))
    return -(-count // step) * step


def _multiplies_int8() -> bool:
    return hasattr(torch.ops.onednn, "qlinear_prepack") and bool(torch.cpu._is_vnni_supported())


class _Bfloat16:
    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _USUAL_WORDPIECES)
        self._bias = bias.detach()

    def __call__(self, rows_TK: Tensor, then: str = "none") -> Tensor:
        # The last argument says which GELU: "none" is the exact one, and nothing at all where there is none.
        which = "none" if then == "gelu" else ""
        result: Tensor = torch.ops.mkldnn._linear_pointwise(rows_TK, self._weight, self._bias, then, [], which)
        return result

    def plus(self, rows_TK: Tensor, residual_TN: Tensor) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
            rows_TK, residual_TN, self._weight, self._bias, "add"
        )
        return result


class _Int8:
    """Loud inputs are divided by what their column of the weight is multiplied by, so that they set no scale alone."""

    def __init__(self, weight: Tensor, bias: Tensor, largest_K: Tensor) -> None:
        louder_K = (largest_K / largest_K.topk(_LOUD + 1).values[-1]).clamp(min=1)
        self._softer_K = louder_K.rsqrt()  # half of it: the weight has scales to lose, too
        self._weight = _Int8Weight(weight.float() * louder_K.sqrt())
        self._bias = bias.detach().float()

    def __call__(self, rows_TK: Tensor, then: str = "none") -> Tensor:
        codes = _codes(rows_TK.float() * self._softer_K)
        result: Tensor = torch.ops.onednn.qlinear_pointwise(
            *codes,
            *self._weight,
            *(self._bias, 1.0, 0, torch.bfloat16, then, [], "none" if then == "gelu" else ""),
        )
        return result


class _Int8Sum:
    """Loud inputs are multiplied apart, in bfloat16, and what they give is added to the residual."""

    def __init__(self, weight: Tensor, bias: Tensor, largest_K: Tensor) -> None:
        self._loud_L = largest_K.topk(_LOUD).indices
        self._loud_weight_LN = weight.detach()[:, self._loud_L].T.contiguous()
        self._weight = _Int8Weight(weight.float().index_fill(1, self._loud_L, 0.0))
        self._bias = bias.detach().float()

    def plus(self, rows_TK: Tensor, residual_TN: Tensor) -> Tensor:
        """`rows_TK` is overwritten."""
        sum_TN = torch.addmm(residual_TN, rows_TK.index_select(1, self._loud_L), self._loud_weight_LN)
        codes = _codes(rows_TK.index_fill_(1, self._loud_L, 0.0).float())
        result: Tensor = torch.ops.onednn.qlinear_pointwise.binary(
            *codes,
            *self._weight,
            *(sum_TN, self._bias, 1.0, 0, torch.bfloat16, 1.0, 0, "add", 1.0, "none", [], ""),
        )
        return result


class _Int8Weight(tuple[Tensor, Tensor, Tensor]):
    """(codes as the kernel wants them, scale of each row, zeros)."""

    def __new__(cls, weight_NK: Tensor) -> _Int8Weight:
        weight_NK = weight_NK.detach().float()
        scale_N = (weight_NK.abs().amax(dim=1) / 127).clamp(min=1e-12)
        codes_NK = (weight_NK / scale_N.unsqueeze(1)).round().to(torch.int8)
        packed = torch.ops.onednn.qlinear_prepack(codes_NK, [_USUAL_WORDPIECES, weight_NK.shape[1]])
        return super().__new__(cls, (packed, scale_N, torch.zeros(len(scale_N), dtype=torch.int32)))


def _codes(rows_TK: Tensor) -> tuple[Tensor, float, int]:
    """(uint8 codes, scale, code of zero) of float32 rows, which are overwritten.

    The kernel for signed codes is a slow one, and so is torch's way from float32 to uint8; that to int8 is not, and
    turning its first bit over adds 128.
    """
    low, high = (value.item() for value in rows_TK.aminmax())
    low, high = min(low, 0.0), max(high, 0.0)
    scale = max(high - low, 1e-12) / 255
    zero = round(-low / scale)
    signed_TK = rows_TK.mul_(1 / scale).add_(zero - 128).round_().clamp_(-128, 127).to(torch.int8)
    return signed_TK.view(torch.uint8).bitwise_xor_(128), scale, zero


@torch.no_grad()
def _largest_inputs(bert: Bert) -> dict[nn.Linear, Tensor]:
    """The largest absolute value of each input of each product [K], seen over a few sentences.

    In every BERT a few inputs are some hundred times louder than the rest, whatever is read (Dettmers et al., 2022).
    """
    largest: dict[nn.Linear, Tensor] = {}

    def look(linear: nn.Linear, inputs: tuple[Tensor, ...]) -> None:
        largest[linear] = inputs[0].float().abs().flatten(0, -2).amax(0)

    linear = [module for module in bert.encoder.modules() if isinstance(module, nn.Linear)]
    hooks = [module.register_forward_pre_hook(look) for module in linear]
    try:
        wordpieces = Wordpieces.default()
        encode(bert, Packed.of([[wordpieces.cls_id, *ids, wordpieces.sep_id] for ids in wordpieces.ids(_SENTENCES)]))
    finally:
        for hook in hooks:
            hook.remove()
    return largest
