"""The reader's BERT in OpenVINO: a graph over sequences of equal length, its int8 form, and an encoder that runs it.

OpenVINO has no attention over packed sequences. So each sequence is a request of its own, or all are padded to the
longest. Embeddings stay in torch.

Legend: B sequences, T wordpieces of all sequences, L wordpieces of the longest, W hidden width, H heads, D head width,
K inputs and N outputs of a product.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from realm_core.model.bert import Bert, TransformerLayer
from realm_core.model.packed import Packed

# With this package OpenVINO reports its import to Google Analytics, with an identifier that it keeps in ~/intel.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
import openvino  # noqa: E402
from openvino import Node, opset13  # noqa: E402

_GROUP = 128  # input channels that share an activation scale in int8
_LARGEST_CODE = 127


class OpenvinoEncoder:
    """The last layer's hidden states [T, W] of `bert`, float32, by the graph in `path`.

    precision: of what is not int8, f32 or bf16; in bf16 OpenVINO does not quantise activations.
    padded: run all sequences as one request.
    """

    def __init__(self, bert: Bert, path: Path, *, precision: str = "f32", padded: bool = False) -> None:
        settings = {
            "INFERENCE_PRECISION_HINT": precision,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": _GROUP,
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "NUM_STREAMS": torch.get_num_threads(),  # each runs a request in one thread
            "ENABLE_CPU_PINNING": False,
        }
        self._compiled = openvino.Core().compile_model(path, "CPU", settings)
        self._embeddings, self._position_bias, self._padded = bert.embeddings, bert.position_bias, padded

    def __call__(self, batch: Packed) -> Tensor:
        """Hidden states [T, W]; several threads may call at once."""
        hidden_TW = self._embeddings(batch.ids_T, batch.segments_T, batch.positions_T).float()
        longest = max(batch.lengths)
        bias_HLL = self._position_bias(longest)
        bias_1HLL = torch.zeros(1, 1, 1, longest) if bias_HLL is None else bias_HLL.float().unsqueeze(0)
        request = self._compiled.create_infer_request()
        if self._padded:
            present_BL = torch.arange(longest) < torch.tensor(batch.lengths).unsqueeze(1)
            mask_BHLL = bias_1HLL.masked_fill(~present_BL[:, None, None], -torch.inf)
            padded_BLW = nn.utils.rnn.pad_sequence(hidden_TW.split(batch.lengths), batch_first=True)
            return _run(request, padded_BLW, mask_BHLL)[present_BL]
        return torch.cat(
            [
                _run(request, own_LW.unsqueeze(0), bias_1HLL[:, :, : len(own_LW), : len(own_LW)]).squeeze(0)
                for own_LW in hidden_TW.split(batch.lengths)
            ]
        )


def _run(request: openvino.InferRequest, hidden_BLW: Tensor, mask_BHLL: Tensor) -> Tensor:
    result = request.infer([hidden_BLW.numpy(), mask_BHLL.contiguous().numpy()])
    return torch.from_numpy(result[0])


def convert(bert: Bert, path: Path, *, int8: bool = False) -> None:
    """Write the graph.

    int8: with weights in int8, a symmetric scale per output. OpenVINO quantises the activations while it runs if the
    processor has VNNI: a symmetric scale per wordpiece and `_GROUP` channels.
    """
    openvino.save_model(_Graph(bert, int8=int8).model(), path, compress_to_fp16=False)


class _Graph:
    def __init__(self, bert: Bert, *, int8: bool) -> None:
        self._bert, self._int8 = bert, int8
        self._heads, self._width = bert.config.num_attention_heads, bert.config.hidden_size

    def model(self) -> openvino.Model:
        hidden_BLW = opset13.parameter([-1, -1, self._width], np.float32, name="hidden_BLW")
        mask_BHLL = opset13.parameter([-1, -1, -1, -1], np.float32, name="mask_BHLL")
        result = hidden_BLW
        for layer in self._bert.layers:
            result = self._layer(layer, result, mask_BHLL)
        return openvino.Model([result], [hidden_BLW, mask_BHLL], "reader")

    def _layer(self, layer: TransformerLayer, hidden: Node, mask: Node) -> Node:
        own = layer.attention.self
        query, key, value = (self._by_head(self._dense(hidden, dense)) for dense in (own.query, own.key, own.value))
        attended_BHLD = opset13.scaled_dot_product_attention(query, key, value, mask)
        attended_BLHD = opset13.transpose(attended_BHLD, _whole(0, 2, 1, 3))
        context = opset13.reshape(attended_BLHD, _whole(0, 0, self._width), special_zero=True)
        hidden = self._closing(context, hidden, layer.attention.output)
        wide = opset13.gelu(self._dense(hidden, layer.intermediate.dense), "ERF")
        return self._closing(wide, hidden, layer.output)

    def _by_head(self, rows_BLW: Node) -> Node:
        shape = _whole(0, 0, self._heads, self._width // self._heads)
        return opset13.transpose(opset13.reshape(rows_BLW, shape, special_zero=True), _whole(0, 2, 1, 3))

    def _closing(self, rows: Node, residual: Node, output: nn.Module) -> Node:
        """LayerNorm(residual + Dense(rows))."""
        norm = output.LayerNorm
        total = opset13.add(self._dense(rows, output.dense), residual)
        normed = opset13.mvn(total, _whole(-1), normalize_variance=True, eps=norm.eps, eps_mode="inside_sqrt")
        return opset13.add(opset13.multiply(normed, _real(norm.weight)), _real(norm.bias))

    def _dense(self, rows: Node, dense: nn.Linear) -> Node:
        product = opset13.matmul(rows, self._weight(dense.weight), transpose_a=False, transpose_b=True)
        return opset13.add(product, _real(dense.bias))

    def _weight(self, weight_NK: Tensor) -> Node:
        if not self._int8:
            return _real(weight_NK)
        scale_N1 = weight_NK.detach().float().abs().amax(1, keepdim=True).clamp(min=1e-12) / _LARGEST_CODE
        codes_NK = (weight_NK.detach().float() / scale_N1).round().to(torch.int8)
        return opset13.multiply(opset13.convert(opset13.constant(codes_NK.numpy()), np.float32), _real(scale_N1))


def _whole(*numbers: int) -> Node:
    return opset13.constant(np.array(numbers, dtype=np.int64))


def _real(values: Tensor) -> Node:
    return opset13.constant(values.detach().float().numpy())
