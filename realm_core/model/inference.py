"""BERT's layers for inference on a CPU: the same results as `packed.encode` in less time.

One product computes queries, keys and values; oneDNN stores the weights in the layout of its kernels and fuses bias,
GELU and residual into the product.

Products are in the weights' type, bfloat16 or float32, or in int8 at twice the speed: weights are quantised with a
scale per output (as in a packed model, so little is lost), activations with a dynamic scale and zero point per row, so
that a sequence's result does not depend on those that share its batch. Activations have a few outlier channels, which
would dominate their row's scale: they are smoothed (as in SmoothQuant) or multiplied separately (as in LLM.int8()).
Activations between products have the weights' type, but within a feed-forward layer in int8 float32.

A processor without VNNI adds the products of two neighbouring channels in 16 bits, which overflow: 2 · 254 · 127 > 2¹⁵.
There the scales are so large that no two neighbouring codes of a weight exceed 129 together: 129 · 254 < 2¹⁵.

The oneDNN operators are private to torch; where they are missing, `packed.encode` is used.

oneDNN compiles and caches a kernel per number of rows, which takes longer than multiplying a few more rows. So T is
rounded up to one of sixteen sizes per power of two. The padding rows are copies of the first row.

The layers are compiled with TorchScript (`_compiled`), so that a call takes the GIL only at its beginning and end.
Otherwise it would take the GIL 400 times per question and compete with the web server's threads. (TorchScript needs
evaluated annotations, so this module does not postpone them.)

Legend: T wordpieces of all sequences, R rows including padding, W hidden width, H heads, D head width, K inputs and N
outputs of a product, L outlier channels.
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

_TYPICAL_ROWS = 512  # for which the layout of the weights is chosen
_LEAST_STEP, _STEP_BITS = 8, 5  # R is a multiple of 8, from 256 on of 16, from 512 on of 32, …
_ATTENTION_ROWS = 16  # in bfloat16 attention is over a multiple of so many rows
_SMOOTHED, _SPLIT = 16, 8  # outlier channels of a product
_LARGEST_CODE, _LARGEST_PAIR = 127, 129  # of a weight in int8, and of two neighbouring ones where it matters
_CALIBRATION_SENTENCES = [
    "Who wrote the music of the film that won the prize in 1994?",
    "The town lies on the river, 12 km north of the capital; in 2001 it had 4,500 inhabitants.",
]

Function = TypeVar("Function", bound=Callable[..., object])


class _Int8(NamedTuple):
    """Quantisation parameters of a product in int8; it uses either `smoothing_K` or the outlier channels."""

    scale_N: Tensor
    zero_N: Tensor
    sums_N: Tensor  # of each output's weights: what a zero point of 1 adds
    smoothing_K: Tensor  # multiplies the activations; the columns of the weight are divided by it
    outliers_L: Tensor  # channels that are multiplied separately, in float32
    outlier_weight_LN: Tensor


class _Product(NamedTuple):
    """rows · weightᵀ + bias; weight: in the layout of oneDNN's kernel."""

    weight: Tensor
    bias_N: Tensor
    int8: _Int8 | None


class _Norm(NamedTuple):
    gain_W: Tensor
    offset_W: Tensor
    epsilon: float


class _Layer(NamedTuple):
    """Products and norms of a layer."""

    qkv: _Product
    attention_output: _Product
    intermediate: _Product
    output: _Product
    attention_norm: _Norm
    output_norm: _Norm


class InferenceEncoder:
    """The last layer's hidden states [T, W] of a Bert on the CPU; copies its weights and has no gradient.

    int8: multiply in int8 instead of the weights' type.
    """

    def __init__(self, bert: Bert, *, int8: bool = False) -> None:
        self._embeddings = bert.embeddings
        self._heads = bert.config.num_attention_heads
        self._position_bias = bert.position_bias  # called outside of TorchScript, which does not support the module
        self._fused = _fused_attention_is_faster() and bert.encoder.relative_attention_bias is None
        scale = (bert.config.hidden_size // self._heads) ** -0.5  # of the attention scores, folded into the queries
        dtype = bert.embeddings.word_embeddings.weight.dtype
        self.product = "int8" if int8 and _int8_is_supported() else str(dtype).removeprefix("torch.")
        largest = _largest_activations(bert) if self.product == "int8" else {}

        def smoothed(weight: Tensor, bias: Tensor, source: nn.Linear) -> _Product:
            return _int8_smoothed(weight, bias, largest[source]) if largest else _unquantised(weight, bias)

        def split(linear: nn.Linear) -> _Product:
            weight, bias = linear.weight, linear.bias
            return _int8_split(weight, bias, largest[linear]) if largest else _unquantised(weight, bias)

        self._layers = []
        for layer in bert.layers:
            own = layer.attention.self
            qkv_weight = torch.cat([own.query.weight * scale, own.key.weight, own.value.weight])
            qkv_bias = torch.cat([own.query.bias * scale, own.key.bias, own.value.bias])
            intermediate = layer.intermediate.dense
            self._layers.append(
                _Layer(
                    qkv=smoothed(qkv_weight, qkv_bias, own.query),
                    attention_output=split(layer.attention.output.dense),
                    intermediate=smoothed(intermediate.weight, intermediate.bias, intermediate),
                    output=split(layer.output.dense),
                    attention_norm=_norm(layer.attention.output.LayerNorm),
                    output_norm=_norm(layer.output.LayerNorm),
                )
            )

    @staticmethod
    def supports(bert: Bert, *, int8: bool = False) -> bool:
        """Whether processor, torch version and model are supported, and it is faster. In float32 only int8 is."""
        weight = bert.embeddings.word_embeddings.weight
        quantised = int8 and weight.dtype == torch.float32 and _int8_is_supported()
        return bool(
            weight.device.type == "cpu"
            and (weight.dtype == torch.bfloat16 or quantised)
            and bert.config.hidden_act == "gelu"
            and torch.backends.mkldnn.is_available()
            and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
            and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        )

    def __call__(self, batch: Packed) -> Tensor:
        """Hidden states [T, W] in the weights' type."""
        count = len(batch.ids_T)
        rows_R = torch.arange(_rounded(count))
        rows_R[count:] = 0
        hidden_RW: Tensor = self._embeddings(batch.ids_T[rows_R], batch.segments_T[rows_R], batch.positions_T[rows_R])
        windows = _windows(batch.lengths, len(rows_R), hidden_RW.dtype)
        bias_HLL = self._position_bias(max(window.end - window.start for window in windows))
        return _run_layers(hidden_RW, self._layers, windows, bias_HLL, self._heads, self._fused)[:count]


def _rounded(count: int) -> int:
    """R: T rounded up to a multiple of about T / 16."""
    step = max(_LEAST_STEP, 1 << max(0, count.bit_length() - _STEP_BITS))
    return -(-count // step) * step


def _int8_is_supported() -> bool:
    return hasattr(torch.ops.onednn, "qlinear_prepack") and bool(torch.cpu._is_avx2_supported())


def _adds_in_16_bits() -> bool:
    return not torch.cpu._is_vnni_supported()


def int8_is_faster() -> bool:
    """Measured: with AMX products in bfloat16 take 0.8 of the time of those in int8, and are nearer to float32."""
    return _int8_is_supported() and not torch.cpu._is_amx_tile_supported()


def _fused_attention_is_faster() -> bool:
    """Measured: with AMX torch's attention kernel is 40 % faster than two products, without AMX it is slower."""
    return bool(torch.cpu._is_amx_tile_supported())


# ---- compiled functions


def _compiled(function: Function) -> Function:
    """The function compiled with TorchScript, which runs without the GIL; unchanged on Python 3.14, which lacks it."""
    if sys.version_info >= (3, 14):
        return function
    with warnings.catch_warnings():
        # Its successor, torch.compile, needs a C++ compiler, which a serving machine rarely has.
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled: Function = torch.jit.script(function)
    return compiled


def _int8_product(rows_TK: Tensor, product: _Product, int8: _Int8) -> Tensor:
    """rows · weightᵀ + bias, float32; overwrites `rows_TK`, which are in float32.

    row = (codes − zero) · scale, both a row's own. The kernel would have one of each for all rows, so it multiplies the
    codes alone. Codes are at most 254, so that rounding cannot overflow.
    """
    low_T1 = rows_TK.amin(1, keepdim=True).clamp(max=0.0)
    high_T1 = rows_TK.amax(1, keepdim=True).clamp(min=0.0)
    scale_T1 = ((high_T1 - low_T1) / 254).clamp(min=1e-12)
    zero_T1 = torch.round(-low_T1 / scale_T1)
    # By way of int16, because float32 to uint8 at once takes thrice the time; it rounds down.
    codes_TK = rows_TK.mul_(1 / scale_T1).add_(zero_T1 + 0.5).to(torch.int16).to(torch.uint8)
    result_TN: Tensor = torch.ops.onednn.qlinear_pointwise(
        codes_TK,
        1.0,
        0,
        product.weight,
        int8.scale_N,
        int8.zero_N,
        None,
        1.0,
        0,
        torch.float32,
        "none",
        [],
        "",
    )
    return result_TN.addcmul_(zero_T1, int8.sums_N, value=-1.0).mul_(scale_T1).add_(product.bias_N)


def _multiply(rows_TK: Tensor, product: _Product, gelu: bool) -> Tensor:
    """rows · weightᵀ + bias, optionally followed by GELU. In int8, outlier channels are smoothed.

    In the type of `rows_TK`, but after GELU in int8 float32, in which the next product takes its rows.
    """
    int8 = product.int8
    if int8 is None:
        exact: Tensor = torch.ops.mkldnn._linear_pointwise(
            rows_TK, product.weight, product.bias_N, "gelu" if gelu else "none", [], "none" if gelu else ""
        )
        return exact
    result_TN = _int8_product(rows_TK.float() * int8.smoothing_K, product, int8)
    if gelu:
        torch.ops.aten.gelu_(result_TN)
        return result_TN
    return result_TN.to(rows_TK.dtype)


def _multiply_and_add(rows_TK: Tensor, residual_TN: Tensor, product: _Product) -> Tensor:
    """rows · weightᵀ + bias + residual; overwrites `rows_TK`. In int8, outlier channels are multiplied separately."""
    int8 = product.int8
    if int8 is None:
        exact: Tensor = torch.ops.mkldnn._linear_pointwise(rows_TK, residual_TN, product.weight, product.bias_N, "add")
        return exact
    outliers_TL = rows_TK.index_select(1, int8.outliers_L).float()
    rest_TK = rows_TK.index_fill_(1, int8.outliers_L, 0.0)
    result_TN = _int8_product(rest_TK.float(), product, int8).addmm_(outliers_TL, int8.outlier_weight_LN)
    return result_TN.add_(residual_TN).to(residual_TN.dtype)


class _Window(NamedTuple):
    """The rows [start, end) for attention of one sequence, in bfloat16 widened to a multiple of `_ATTENTION_ROWS`.

    torch's kernel takes twice as long for other sizes, and oneDNN compiles one for each size.
    mask_111K: −inf at rows of neighbouring sequences; None if there are none.
    """

    start: int
    end: int
    own_start: int  # the sequence's rows, relative to `start`
    own_end: int
    mask_111K: Tensor | None


def _windows(lengths: tuple[int, ...], rows: int, dtype: torch.dtype) -> list[_Window]:
    windows, own_start = [], 0
    multiple = _ATTENTION_ROWS if dtype == torch.bfloat16 else 1
    for length in lengths:
        width = min(rows, -(-length // multiple) * multiple)
        start = min(own_start, rows - width)
        mask_111K = None
        if width > length:
            mask_111K = torch.full((1, 1, 1, width), -torch.inf, dtype=dtype)
            mask_111K[..., own_start - start : own_start - start + length] = 0.0
        windows.append(_Window(start, start + width, own_start - start, own_start - start + length, mask_111K))
        own_start += length
    return windows


def _attend(qkv_RW: Tensor, windows: list[_Window], bias_HLL: Tensor | None, heads: int, fused: bool) -> Tensor:
    """Attention one sequence at a time: no padding, and the scores stay in cache. Queries are scaled already.

    fused: use torch's kernel; otherwise two products.
    """
    rows, hidden = qkv_RW.size(0), qkv_RW.size(1) // 3
    qkv_31HRD = qkv_RW.view(rows, 3, heads, hidden // heads).permute(1, 2, 0, 3).unsqueeze(1)
    contexts: list[Tensor] = []
    for window in windows:
        window_31HKD = qkv_31HRD[:, :, :, window.start : window.end]
        mask_111K = window.mask_111K
        if fused:
            query, key, value = window_31HKD.unbind()
            context_1HKD = nn.functional.scaled_dot_product_attention(query, key, value, mask_111K, scale=1.0)
        else:
            query_HKD, key_HKD, value_HKD = window_31HKD.squeeze(1).contiguous().unbind()
            if bias_HLL is None:
                scores_HKK = torch.bmm(query_HKD, key_HKD.transpose(1, 2))
            else:
                width = query_HKD.size(1)  # the bias depends on the distance of two rows alone
                scores_HKK = torch.baddbmm(bias_HLL[:, :width, :width], query_HKD, key_HKD.transpose(1, 2))
            scores_HKK = scores_HKK.float()  # in bfloat16 torch's softmax takes up to thrice the time
            if mask_111K is not None:
                scores_HKK.add_(mask_111K[0])
            weights_HKK = torch.softmax(scores_HKK, dim=-1).to(value_HKD.dtype)
            context_1HKD = torch.bmm(weights_HKK, value_HKD).unsqueeze(0)
        contexts.append(context_1HKD[:, :, window.own_start : window.own_end])
    padding = rows - sum([context.size(2) for context in contexts])
    contexts.append(contexts[0][:, :, :1].expand(-1, -1, padding, -1))
    return torch.cat(contexts, dim=2).transpose(1, 2).reshape(rows, hidden)


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
    """Hidden states of the last layer; the padding rows stay copies of the first row."""
    for layer in layers:
        context_RW = _attend(_multiply(hidden_RW, layer.qkv, False), windows, bias_HLL, heads, fused)
        hidden_RW = _normed(_multiply_and_add(context_RW, hidden_RW, layer.attention_output), layer.attention_norm)
        intermediate_RI = _multiply(hidden_RW, layer.intermediate, True)
        hidden_RW = _normed(_multiply_and_add(intermediate_RI, hidden_RW, layer.output), layer.output_norm)
    return hidden_RW


_run_layers = _compiled(_layers)


# ---- preparation of the weights


def _norm(norm: nn.LayerNorm) -> _Norm:
    return _Norm(norm.weight.detach(), norm.bias.detach(), norm.eps)


def _unquantised(weight: Tensor, bias: Tensor) -> _Product:
    ordered = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _TYPICAL_ROWS)
    return _Product(ordered, bias.detach(), None)


def _int8_smoothed(weight_NK: Tensor, bias_N: Tensor, largest_K: Tensor) -> _Product:
    """Scale outlier channels down by the square root of their excess: the weight columns grow by as much."""
    excess_K = (largest_K / largest_K.topk(min(_SMOOTHED + 1, len(largest_K))).values[-1]).clamp(min=1)
    none = torch.empty(0)
    return _int8(_in_float32(weight_NK).mul_(excess_K.sqrt()), bias_N, excess_K.rsqrt(), none.long(), none)


def _int8_split(weight_NK: Tensor, bias_N: Tensor, largest_K: Tensor) -> _Product:
    outliers_L = largest_K.topk(_SPLIT).indices
    outlier_weight_LN = weight_NK.detach()[:, outliers_L].T.float().contiguous()
    rest_NK = _in_float32(weight_NK).index_fill_(1, outliers_L, 0.0)
    return _int8(rest_NK, bias_N, torch.empty(0), outliers_L, outlier_weight_LN)


def _in_float32(tensor: Tensor) -> Tensor:
    return tensor.detach().to(torch.float32, copy=True)


def _int8(
    weight_NK: Tensor, bias_N: Tensor, smoothing_K: Tensor, outliers_L: Tensor, outlier_weight_LN: Tensor
) -> _Product:
    """Overwrites `weight_NK`, because allocating tensors of its size takes longer than filling them."""
    scale_N = torch.maximum(weight_NK.amax(dim=1), -weight_NK.amin(dim=1)) / _LARGEST_CODE
    if _adds_in_16_bits():
        odd_NK = weight_NK[:, 1::2].abs()
        pairs_NK = weight_NK[:, : 2 * odd_NK.shape[1] : 2].abs() + odd_NK
        scale_N = torch.maximum(scale_N, pairs_NK.amax(dim=1) / (_LARGEST_PAIR - 1))  # both are rounded
    scale_N = scale_N.clamp(min=1e-12)
    codes_NK = weight_NK.div_(scale_N.unsqueeze(1)).round_().to(torch.int8)
    packed = torch.ops.onednn.qlinear_prepack(codes_NK, [_TYPICAL_ROWS, weight_NK.shape[1]])
    zero_N = torch.zeros(len(scale_N), dtype=torch.int32)
    sums_N = codes_NK.sum(dim=1, dtype=torch.float32).mul_(scale_N)
    int8 = _Int8(scale_N, zero_N, sums_N, smoothing_K.detach(), outliers_L, outlier_weight_LN)
    return _Product(packed, bias_N.detach().float(), int8)


@torch.no_grad()
def _largest_activations(bert: Bert) -> dict[nn.Linear, Tensor]:
    """The largest absolute value of each input channel of each product [K] over the calibration sentences.

    A few sentences suffice: in a BERT the same few channels are about a hundred times larger than the others for any
    input (Dettmers et al., 2022).
    """
    largest: dict[nn.Linear, Tensor] = {}

    def record(linear: nn.Linear, inputs: tuple[Tensor, ...]) -> None:
        largest[linear] = inputs[0].float().abs().flatten(0, -2).amax(0)

    linear = [module for module in bert.encoder.modules() if isinstance(module, nn.Linear)]
    hooks = [module.register_forward_pre_hook(record) for module in linear]
    try:
        wordpieces = Wordpieces.default()
        ids = wordpieces.ids(_CALIBRATION_SENTENCES)
        encode(bert, Packed.of([[wordpieces.cls_id, *one, wordpieces.sep_id] for one in ids]))
    finally:
        for hook in hooks:
            hook.remove()
    return largest
