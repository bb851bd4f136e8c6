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

The layers are functions of tensors, compiled by torch (`_compiled`): a call of theirs holds Python's lock at its
beginning and its end alone. From Python they would take it 400 times a question, and wait each time for whoever else
has it: threads of the web server, or of the same reading. (The compiler reads annotations as they are, not as text.)

Legend: T wordpieces of all sequences, R rows worked on, W hidden width, H heads, D width of a head.
"""

import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from realm_core.model.bert import Bert
from realm_core.model.packed import Packed, encode
from realm_core.text.wordpieces import Wordpieces

_USUAL_WORDPIECES = 512  # rows of a product for which the order of the weights is chosen
_LEAST_STEP, _STEP_BITS = 8, 5  # R is a multiple of 8, from 256 on of 16, from 512 on of 32, …
_ROWS = 16  # that attention takes at once
_LOUD = 8  # inputs of a product that are kept from setting its scale
_SENTENCES = [
    "Who wrote the music of the film that won the prize in 1994?",
    "The town lies on the river, 12 km north of the capital; in 2001 it had 4,500 inhabitants.",
]

Function = TypeVar("Function", bound=Callable[..., object])


class _Int8(NamedTuple):
    """What a product in int8 needs besides codes and bias. N outputs, K inputs, L loud ones."""

    scale_N: Tensor
    zero_N: Tensor
    softer_K: Tensor  # what an input is multiplied by, and its column of the weight is divided by
    loud_L: Tensor  # or: inputs that are multiplied apart, in bfloat16
    loud_weight_LN: Tensor


class _Product(NamedTuple):
    """rows · weightᵀ + bias; weight: as oneDNN's kernel reads it."""

    weight: Tensor
    bias_N: Tensor
    int8: _Int8 | None


class _Norm(NamedTuple):
    gain_W: Tensor
    offset_W: Tensor
    epsilon: float


class _Layer(NamedTuple):
    """Products of a layer, and its norms."""

    qkv: _Product
    output: _Product
    rise: _Product
    fall: _Product
    attention_norm: _Norm
    output_norm: _Norm


class InferenceEncoder:
    """The last layer's hidden states [T, W] of a Bert on the CPU; copies its weights, takes no gradient.

    int8: multiply in int8 instead of bfloat16, where the processor adds such products up without overflow (VNNI).
    """

    def __init__(self, bert: Bert, *, int8: bool = False) -> None:
        self._embeddings = bert.embeddings
        self._heads = bert.config.num_attention_heads
        # Of relative positions, or none: torch's compiler knows tensors that may be missing, but no modules.
        self._position_bias = bert.position_bias
        self._fused = _attends_fused() and bert.encoder.relative_attention_bias is None
        scale = (bert.config.hidden_size // self._heads) ** -0.5  # of the attention scores, put into the queries
        self.product = "int8" if int8 and _multiplies_int8() else "bfloat16"
        largest = _largest_inputs(bert) if self.product == "int8" else {}

        def softened(weight: Tensor, bias: Tensor, source: nn.Linear) -> _Product:
            return _int8_softened(weight, bias, largest[source]) if largest else _bfloat16(weight, bias)

        def split(linear: nn.Linear) -> _Product:
            weight, bias = linear.weight, linear.bias
            return _int8_split(weight, bias, largest[linear]) if largest else _bfloat16(weight, bias)

        self._layers = []
        for layer in bert.layers:
            own = layer.attention.self
            qkv_weight = torch.cat([own.query.weight * scale, own.key.weight, own.value.weight])
            qkv_bias = torch.cat([own.query.bias * scale, own.key.bias, own.value.bias])
            rise = layer.intermediate.dense
            self._layers.append(
                _Layer(
                    qkv=softened(qkv_weight, qkv_bias, own.query),
                    output=split(layer.attention.output.dense),
                    rise=softened(rise.weight, rise.bias, rise),
                    fall=split(layer.output.dense),
                    attention_norm=_norm(layer.attention.output.LayerNorm),
                    output_norm=_norm(layer.output.LayerNorm),
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
        bias_HLL = self._position_bias(max(batch.lengths))
        windows = _windows(batch.lengths, len(rows_R), hidden_RW.dtype)
        return _through(hidden_RW, self._layers, windows, bias_HLL, self._heads, self._fused)[:count]


def _rounded(count: int) -> int:
    """R: T rounded up to a multiple of about its sixteenth."""
    step = max(_LEAST_STEP, 1 << max(0, count.bit_length() - _STEP_BITS))
    return -(-count // step) * step


def _multiplies_int8() -> bool:
    return hasattr(torch.ops.onednn, "qlinear_prepack") and bool(torch.cpu._is_vnni_supported())


def _attends_fused() -> bool:
    """Whether torch's kernel for attention is the faster way: with AMX by two fifths, without it was the slower one."""
    return bool(torch.cpu._is_amx_tile_supported())


# ── What is compiled ────────────────────────────────────────────────────────────────────────────────────────────────


def _compiled(function: Function) -> Function:
    """The same function, run by torch without Python's lock; as it is where torch no longer compiles (Python 3.14)."""
    if sys.version_info >= (3, 14):
        return function
    with warnings.catch_warnings():
        # What is to take its place compiles with a C++ compiler, which few of those who serve a model have.
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled: Function = torch.jit.script(function)
    return compiled


def _codes(rows_TK: Tensor) -> tuple[Tensor, float, int]:
    """(uint8 codes, scale, code of zero); float32 rows are overwritten. Codes go up to 254: none overflows."""
    least, largest = torch.aminmax(rows_TK)
    low, high = min(float(least), 0.0), max(float(largest), 0.0)
    scale = max(high - low, 1e-12) / 254
    zero = int(round(-low / scale))  # noqa: RUF046  # to torch's compiler it is a float
    return rows_TK.float().mul_(1 / scale).add_(zero + 0.5).to(torch.uint8), scale, zero


def _multiply(rows_TK: Tensor, product: _Product, gelu: bool) -> Tensor:
    """rows · weightᵀ + bias, then GELU if so wanted. Loud inputs are made softer, so that they set no scale alone."""
    then = "gelu" if gelu else "none"
    which = "none" if gelu else ""  # "none" is the exact GELU
    int8 = product.int8
    if int8 is None:
        exact: Tensor = torch.ops.mkldnn._linear_pointwise(rows_TK, product.weight, product.bias_N, then, [], which)
        return exact
    codes_TK, scale, zero = _codes(rows_TK.float() * int8.softer_K)
    result: Tensor = torch.ops.onednn.qlinear_pointwise(
        codes_TK,
        scale,
        zero,
        product.weight,
        int8.scale_N,
        int8.zero_N,
        product.bias_N,
        1.0,
        0,
        torch.bfloat16,
        then,
        [],
        which,
    )
    return result


def _multiply_and_add(rows_TK: Tensor, residual_TN: Tensor, product: _Product) -> Tensor:
    """rows · weightᵀ + bias + residual; `rows_TK` is overwritten. Loud inputs are multiplied apart."""
    int8 = product.int8
    if int8 is None:
        exact: Tensor = torch.ops.mkldnn._linear_pointwise(rows_TK, residual_TN, product.weight, product.bias_N, "add")
        return exact
    # As a batch of one: torch's compiler would take addmm apart, and round between its halves.
    loud_1TL = rows_TK.index_select(1, int8.loud_L).unsqueeze(0)
    sum_TN = torch.addbmm(residual_TN, loud_1TL, int8.loud_weight_LN.unsqueeze(0))
    codes_TK, scale, zero = _codes(rows_TK.index_fill_(1, int8.loud_L, 0.0))
    result: Tensor = torch.ops.onednn.qlinear_pointwise(
        codes_TK,
        scale,
        zero,
        product.weight,
        int8.scale_N,
        int8.zero_N,
        sum_TN,
        product.bias_N,
        1.0,
        0,
        torch.bfloat16,
        1.0,
        0,
        "add",
        1.0,
        "none",
        [],
        "",
    )
    return result


class _Window(NamedTuple):
    """Rows that attention sees for a sequence, a multiple of `_ROWS` if there are so many: its own, and neighbours'.

    Its kernel takes twice as long for other numbers. mask_111K: −inf where a row is a neighbour's; None without any.
    """

    start: int
    end: int
    own_start: int  # from `start` on
    own_end: int
    mask_111K: Tensor | None


def _windows(lengths: tuple[int, ...], rows: int, dtype: torch.dtype) -> list[_Window]:
    windows, own_start = [], 0
    for length in lengths:
        width = min(rows, -(-length // _ROWS) * _ROWS)
        start = min(own_start, rows - width)
        mask_111K = None
        if width > length:
            mask_111K = torch.full((1, 1, 1, width), -torch.inf, dtype=dtype)
            mask_111K[..., own_start - start : own_start - start + length] = 0.0
        windows.append(_Window(start, start + width, own_start - start, own_start - start + length, mask_111K))
        own_start += length
    return windows


def _attend(qkv_RW: Tensor, windows: list[_Window], bias_HLL: Tensor | None, heads: int, fused: bool) -> Tensor:
    """One sequence at a time: nothing is padded, and its scores stay in cache. Queries come scaled.

    fused: by torch's kernel, in bfloat16; otherwise by two plain products in float32.
    """
    rows, width = qkv_RW.size(0), qkv_RW.size(1) // 3
    qkv_31HRD = qkv_RW.view(rows, 3, heads, width // heads).permute(1, 2, 0, 3).unsqueeze(1)
    contexts: list[Tensor] = []
    for window in windows:
        if fused:
            query, key, value = qkv_31HRD[:, :, :, window.start : window.end].unbind()
            context_1HKD = nn.functional.scaled_dot_product_attention(query, key, value, window.mask_111K, scale=1.0)
            contexts.append(context_1HKD[:, :, window.own_start : window.own_end])
        else:
            own_31HLD = qkv_31HRD[:, :, :, window.start + window.own_start : window.start + window.own_end]
            query_HLD, key_HLD, value_HLD = own_31HLD.squeeze(1).float().contiguous().unbind()
            if bias_HLL is None:
                scores_HLL = torch.bmm(query_HLD, key_HLD.transpose(1, 2))
            else:
                length = query_HLD.size(1)
                scores_HLL = torch.baddbmm(bias_HLL[:, :length, :length].float(), query_HLD, key_HLD.transpose(1, 2))
            weights_HLL = torch.softmax(scores_HLL, dim=-1)
            contexts.append(torch.bmm(weights_HLL, value_HLD).unsqueeze(0).to(qkv_RW.dtype))
    behind = rows - sum([context.size(2) for context in contexts])
    contexts.append(contexts[0][:, :, :1].expand(-1, -1, behind, -1))
    return torch.cat(contexts, dim=2).transpose(1, 2).reshape(rows, width)


def _normed(rows_RW: Tensor, norm: _Norm) -> Tensor:
    return torch.layer_norm(rows_RW, [rows_RW.size(1)], norm.gain_W, norm.offset_W, norm.epsilon)


def _layers(
    hidden_RW: Tensor,
    layers: list[_Layer],
    windows: list[_Window],
    bias_HLL: Tensor | None,
    heads: int,
    fused: bool,
) -> Tensor:
    """Hidden states behind the last layer. The rows behind those of the sequences are the first one again."""
    for layer in layers:
        context_RW = _attend(_multiply(hidden_RW, layer.qkv, False), windows, bias_HLL, heads, fused)
        hidden_RW = _normed(_multiply_and_add(context_RW, hidden_RW, layer.output), layer.attention_norm)
        raised_RI = _multiply(hidden_RW, layer.rise, True)
        hidden_RW = _normed(_multiply_and_add(raised_RI, hidden_RW, layer.fall), layer.output_norm)
    return hidden_RW


_through = _compiled(_layers)


# ── Products of a model ─────────────────────────────────────────────────────────────────────────────────────────────


def _norm(norm: nn.LayerNorm) -> _Norm:
    return _Norm(norm.weight.detach(), norm.bias.detach(), norm.eps)


def _bfloat16(weight: Tensor, bias: Tensor) -> _Product:
    ordered = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _USUAL_WORDPIECES)
    return _Product(ordered, bias.detach(), None)


def _int8_softened(weight_NK: Tensor, bias_N: Tensor, largest_K: Tensor) -> _Product:
    """What makes a loud input soft is shared between it and its column of the weight, which has scales to lose, too."""
    louder_K = (largest_K / largest_K.topk(_LOUD + 1).values[-1]).clamp(min=1)
    none = torch.empty(0)
    return _int8(_in_float32(weight_NK).mul_(louder_K.sqrt()), bias_N, louder_K.rsqrt(), none.long(), none)


def _int8_split(weight_NK: Tensor, bias_N: Tensor, largest_K: Tensor) -> _Product:
    loud_L = largest_K.topk(_LOUD).indices
    loud_weight_LN = weight_NK.detach()[:, loud_L].T.contiguous()
    return _int8(_in_float32(weight_NK).index_fill_(1, loud_L, 0.0), bias_N, torch.empty(0), loud_L, loud_weight_LN)


def _in_float32(tensor: Tensor) -> Tensor:
    return tensor.detach().to(torch.float32, copy=True)


def _int8(weight_NK: Tensor, bias_N: Tensor, softer_K: Tensor, loud_L: Tensor, loud_weight_LN: Tensor) -> _Product:
    """`weight_NK` is overwritten: to make other tensors of its size takes longer than to fill them."""
    largest_N = torch.maximum(weight_NK.amax(dim=1), -weight_NK.amin(dim=1))
    scale_N = (largest_N / 127).clamp(min=1e-12)
    codes_NK = weight_NK.div_(scale_N.unsqueeze(1)).round_().to(torch.int8)
    packed = torch.ops.onednn.qlinear_prepack(codes_NK, [_USUAL_WORDPIECES, weight_NK.shape[1]])
    zero_N = torch.zeros(len(scale_N), dtype=torch.int32)
    return _Product(packed, bias_N.detach().float(), _Int8(scale_N, zero_N, softer_K.detach(), loud_L, loud_weight_LN))


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
