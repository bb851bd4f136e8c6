"""The reader's BERT in ONNX Runtime: a graph over packed sequences, its int8 form, and a session that reads with it.

Products run over the T wordpieces without padding; attention runs over sequences padded to the longest (Gather to
[B, L] and back), because ONNX Runtime has attention over packed sequences on CUDA alone. Embeddings stay in torch.

Legend: B sequences, T wordpieces of all sequences, L longest sequence, W hidden width, H heads, K inputs and N outputs
of a product.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn

from realm_core.model.bert import Bert
from realm_core.model.inference import _SMOOTHED, _largest_activations
from realm_core.model.packed import Packed

_MICROSOFT = "com.microsoft"
_OUTLIER_PRODUCT = "_outliers"  # ends the names of products that stay in float32


class RuntimeEncoder:
    """The last layer's hidden states [T, W] of `bert`, float32, by the graph in `path`."""

    def __init__(self, bert: Bert, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._embeddings, self._position_bias = bert.embeddings, bert.position_bias

    def __call__(self, batch: Packed) -> Tensor:
        """Hidden states [T, W]; several threads may call at once."""
        padded_BL, unpadded_T = padding(batch.lengths)
        inputs = {
            "hidden_TW": self._embeddings(batch.ids_T, batch.segments_T, batch.positions_T).float().numpy(),
            "padded_BL": padded_BL,
            "unpadded_T": unpadded_T,
            "lengths_B": np.asarray(batch.lengths, dtype=np.int32),
        }
        bias_HLL = self._position_bias(max(batch.lengths))
        if bias_HLL is not None:
            inputs["bias_1HLL"] = bias_HLL.float().unsqueeze(0).numpy()
        (hidden_TW,) = self._session.run(None, inputs)
        return torch.from_numpy(hidden_TW)


def padding(lengths: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(padded_BL: the wordpiece at each place, 0 at padding; unpadded_T: each wordpiece's place in [B · L])."""
    lengths_B1 = np.asarray(lengths)[:, None]
    starts_B1 = lengths_B1.cumsum(axis=0) - lengths_B1
    places_L = np.arange(max(lengths))
    present_BL = places_L < lengths_B1
    return np.where(present_BL, starts_B1 + places_L, 0), present_BL.flatten().nonzero()[0]


def export(bert: Bert, path: Path, *, smoothed: bool = False) -> None:
    """Write the graph in float32.

    smoothed: prepared for int8 as `realm_core.model.inference` prepares its products: outlier channels are smoothed, or
    multiplied by a product of their own.
    """
    onnx.save(_Graph(bert, _largest_activations(bert) if smoothed else {}).model(), str(path))


def quantise(source: Path, target: Path) -> None:
    """Write the graph with products in dynamic int8: a scale per output of the weights, one per activation tensor."""
    graph = onnx.load(str(source)).graph
    quantize_dynamic(
        source,
        target,
        per_channel=True,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul"],
        nodes_to_exclude=[node.name for node in graph.node if node.name.endswith(_OUTLIER_PRODUCT)],
        extra_options={"DefaultTensorType": TensorProto.FLOAT},
    )


class _Graph:
    """largest: the largest absolute value of each input channel of each Linear; empty: nothing is smoothed."""

    def __init__(self, bert: Bert, largest: dict[nn.Linear, Tensor]) -> None:
        self._bert, self._largest = bert, largest
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._const("rows", np.array([-1, bert.config.hidden_size], dtype=np.int64))

    def model(self) -> onnx.ModelProto:
        config = self._bert.config
        width, heads = config.hidden_size, config.num_attention_heads
        hidden = "hidden_TW"
        for number in range(len(self._bert.layers)):
            hidden = self._layer(number, hidden)
        shapes = {
            "hidden_TW": (TensorProto.FLOAT, ["T", width]),
            "padded_BL": (TensorProto.INT64, ["B", "L"]),
            "unpadded_T": (TensorProto.INT64, ["T"]),
            "lengths_B": (TensorProto.INT32, ["B"]),
        }
        if self._has_bias():
            shapes["bias_1HLL"] = (TensorProto.FLOAT, [1, heads, "L", "L"])
        inputs = [helper.make_tensor_value_info(name, *shape) for name, shape in shapes.items()]
        output = helper.make_tensor_value_info(hidden, TensorProto.FLOAT, ["T", width])
        graph = helper.make_graph(self._nodes, "reader", inputs, [output], self._constants)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid(_MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def _has_bias(self) -> bool:
        return self._bert.encoder.relative_attention_bias is not None

    def _layer(self, number: int, hidden: str) -> str:
        layer, name = self._bert.layers[number], f"layer{number}"
        own = layer.attention.self
        qkv_weight = torch.cat([own.query.weight, own.key.weight, own.value.weight])
        qkv_bias = torch.cat([own.query.bias, own.key.bias, own.value.bias])
        qkv = self._product(f"{name}_qkv", hidden, qkv_weight, qkv_bias, own.query, split=False)
        padded = self._node("Gather", [qkv, "padded_BL"], f"{name}_padded", axis=0)
        parts = [f"{name}_query", f"{name}_key", f"{name}_value"]
        self._nodes.append(helper.make_node("Split", [padded], parts, axis=2, num_outputs=3))
        attended = self._node(
            "MultiHeadAttention",
            [*parts, "", "lengths_B", *(["bias_1HLL"] if self._has_bias() else [])],
            f"{name}_attended",
            domain=_MICROSOFT,
            num_heads=self._bert.config.num_attention_heads,
        )
        rows = self._node("Reshape", [attended, "rows"], f"{name}_rows")
        context = self._node("Gather", [rows, "unpadded_T"], f"{name}_context", axis=0)
        hidden = self._closing(f"{name}_attention", context, hidden, layer.attention.output)
        dense = layer.intermediate.dense
        wide = self._product(f"{name}_intermediate", hidden, dense.weight, dense.bias, dense, split=False)
        active = self._node("Gelu", [wide], f"{name}_active")
        return self._closing(f"{name}_output", active, hidden, layer.output)

    def _closing(self, name: str, rows: str, residual: str, output: nn.Module) -> str:
        """LayerNorm(residual + Dense(rows))."""
        dense = self._product(f"{name}_dense", rows, output.dense.weight, output.dense.bias, output.dense, split=True)
        total = self._node("Add", [dense, residual], f"{name}_sum")
        norm = output.LayerNorm
        gain, offset = self._const(f"{name}_gain", norm.weight), self._const(f"{name}_offset", norm.bias)
        return self._node("LayerNormalization", [total, gain, offset], f"{name}_norm", axis=-1, epsilon=norm.eps)

    def _product(
        self, name: str, rows: str, weight_NK: Tensor, bias_N: Tensor, source: nn.Linear, *, split: bool
    ) -> str:
        """rows · weightᵀ + bias. split: the outlier channels of a smoothed graph have a product of their own."""
        weight_NK, bias = weight_NK.detach().float().clone(), self._const(f"{name}_bias", bias_N)
        if source not in self._largest:
            return self._multiply_and_add(name, rows, weight_NK, bias)
        largest_K = self._largest[source]
        if not split:
            excess_K = (largest_K / largest_K.topk(_SMOOTHED + 1).values[-1]).clamp(min=1)
            smooth = self._node("Mul", [rows, self._const(f"{name}_factor", excess_K.rsqrt())], f"{name}_smooth")
            return self._multiply_and_add(name, smooth, weight_NK * excess_K.sqrt(), bias)
        outliers_L = largest_K.topk(_SMOOTHED).indices
        factor_K = torch.ones_like(largest_K).index_fill_(0, outliers_L, 0.0)
        rest = self._node("Mul", [rows, self._const(f"{name}_factor", factor_K)], f"{name}_rest")
        channels = self._const(f"{name}_channels", outliers_L.numpy())
        loud = self._node("Gather", [rows, channels], f"{name}_loud", axis=1)
        loud_weight = self._const(f"{name}_loud_weight", weight_NK[:, outliers_L].T)
        apart = self._node("MatMul", [loud, loud_weight], f"{name}{_OUTLIER_PRODUCT}")
        return self._node(
            "Add", [self._multiply_and_add(f"{name}_most", rest, weight_NK * factor_K, bias), apart], name
        )

    def _multiply_and_add(self, name: str, rows: str, weight_NK: Tensor, bias: str) -> str:
        product = self._node("MatMul", [rows, self._const(f"{name}_weight", weight_NK.T)], f"{name}_product")
        return self._node("Add", [product, bias], name)

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        self._nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def _const(self, name: str, value: Tensor | np.ndarray) -> str:
        array = value.detach().float().numpy() if isinstance(value, Tensor) else value
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name
