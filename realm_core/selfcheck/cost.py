"""The cost of the paper's full pre-training on other machines: operations and bytes from formulas, times from shares of
the peak.

Every sequence has its maximum length, so the numbers are upper bounds. Legend: W hidden width, D dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from realm_core.model.bert import Architecture, Bert
from realm_core.model.device import fast_dtype
from realm_core.model.operations import PretrainingWork, encoder_flops
from realm_core.model.packed import Packed, encode

BERT_BASE = Architecture()
ASSUMED_SHARE = 0.4  # of a datasheet's peak, for devices that were not measured
COUNTS = (1, 8, 64)  # of devices that train

# Guu et al. (2020), section 4.2; the number of blocks is the release's.
BLOCKS = 13_353_718
STEPS = 200_000
BATCH = 512
K = 8  # including the null block
DIMENSION = 128
REFRESH_STEPS = 500  # about; between two indexes
TRAINERS_TO_BUILDERS = 4  # 64 devices train, 16 build
# Limits in wordpieces: of join(x), join(z) and join(x, z) with [CLS] and [SEP], of those with the null block; of a
# mask.
QUERY, BLOCK, PAIR, NULL_BLOCK, NULL_PAIR, MASKS = 64, 288, 64 + 288 - 2, 3, 65, 10


@dataclass(frozen=True)
class DeviceProfile:
    """peak_flops: bfloat16, dense, operations per second; shares: the parts of it that training and embedding reach."""

    name: str
    peak_flops: float
    training_share: float
    embedding_share: float


# bfloat16 on tensor cores without sparsity, from NVIDIA's datasheets of the SXM modules.
DATASHEETS = tuple(
    DeviceProfile(name, peak, ASSUMED_SHARE, ASSUMED_SHARE)
    for name, peak in (("A100", 312e12), ("H100, H200", 989e12), ("B200", 2250e12))
)


def step_flops() -> float:
    """Operations of one step, all devices together, forward and backward."""
    return PretrainingWork(
        queries=(QUERY,) * BATCH,
        blocks=(BLOCK,) * (BATCH * (K - 1)) + (NULL_BLOCK,),  # the null block is embedded once
        pairs=(PAIR,) * (BATCH * (K - 1)) + (NULL_PAIR,) * BATCH,
        masks=BATCH * K * MASKS,
        dimension=DIMENSION,
    ).flops(BERT_BASE)


def corpus_flops() -> float:
    """Operations of embedding every block once."""
    return BLOCKS * encoder_flops(BERT_BASE, [BLOCK])


def search_flops() -> float:
    """Operations of the inner products of one step's sentences with all blocks."""
    return 2.0 * BATCH * BLOCKS * DIMENSION


def trained_parameters() -> int:
    """Number of parameters of embedder and encoder, without the embeddings of words, positions and segments; the heads
    have less than one in a hundred."""
    width, inner = BERT_BASE.hidden_size, BERT_BASE.intermediate_size
    layer = 4 * (width**2 + width) + 2 * width * inner + inner + width + 4 * width
    return 2 * BERT_BASE.num_hidden_layers * layer


def index_bytes(bytes_each: int) -> int:
    """Bytes of all block vectors, at 2 bytes (float16) or 4 (float32) per number."""
    return BLOCKS * DIMENSION * bytes_each


def kept_bytes(device: torch.device, architecture: Architecture = BERT_BASE) -> float:
    """Bytes that a layer keeps per wordpiece for the backward pass, measured with the autocast of training.

    Two lengths and two depths are measured, so that weights and other constant parts cancel.
    """

    def kept(layers: int, sequences: int) -> int:
        bert = Bert(replace(architecture, num_hidden_layers=layers, attention_probs_dropout_prob=0.0)).to(device)
        storages: dict[int, torch.UntypedStorage] = {}  # references, so that no address is reused

        def keep(tensor: Tensor) -> Tensor:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
            return tensor

        low = fast_dtype(device)
        with (
            torch.autocast(device.type, dtype=torch.bfloat16, enabled=low == torch.bfloat16),
            torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        ):
            encode(bert, Packed.of([[1] * PAIR] * sequences).to(device))
        return sum(storage.nbytes() for storage in storages.values())

    return ((kept(2, 2) - kept(1, 2)) - (kept(2, 1) - kept(1, 1))) / PAIR


def activation_bytes(kept: float) -> float:
    """Bytes of one sentence with its blocks and both encoders. kept: from `kept_bytes`."""
    wordpieces = QUERY + (K - 1) * BLOCK + NULL_BLOCK + (K - 1) * PAIR + NULL_PAIR
    return BERT_BASE.num_hidden_layers * wordpieces * kept


def step_s(device: DeviceProfile, count: int) -> float:
    """Seconds per step on `count` devices."""
    return step_flops() / (count * device.peak_flops * device.training_share)


def corpus_s(device: DeviceProfile, count: int) -> float:
    """Seconds of embedding the corpus once on `count` devices."""
    return corpus_flops() / (count * device.peak_flops * device.embedding_share)


def formulas() -> str:
    """Operations and bytes of the paper's run, a Markdown table."""
    trained = trained_parameters()
    rows = [
        ("operations of a step, forward and backward", f"{step_flops() / 1e15:.2f} PFLOP"),
        (f"operations of {STEPS:,} steps", f"{STEPS * step_flops() / 1e18:.0f} EFLOP"),
        ("operations of embedding the corpus once", f"{corpus_flops() / 1e15:.0f} PFLOP"),
        ("operations of a step's exact search", f"{search_flops() / 1e12:.2f} TFLOP"),
        ("index, float16 (on the disk)", f"{index_bytes(2) / 2**30:.2f} GiB"),
        ("index, float32 (where it is searched)", f"{index_bytes(4) / 2**30:.2f} GiB"),
        ("wordpieces of the corpus, 2 bytes each", f"{BLOCKS * BLOCK * 2 / 2**30:.2f} GiB"),
        ("parameters that are trained", f"{trained / 1e6:.0f} million"),
        ("their weights, gradients and AdamW's moments, float32", f"{trained * 16 / 2**30:.2f} GiB"),
        ("gradients that each device sends in a step, at most", f"{2 * trained * 4 / 2**30:.2f} GiB"),
    ]
    return "\n".join(["| what | how much |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows)])


def table(devices: Sequence[DeviceProfile]) -> str:
    """Times on 1, 8 and 64 of each device, a Markdown table."""
    lines = [
        f"| device | peak, TFLOP/s | share, training / embedding | train + build | a step | {STEPS:,} steps "
        f"| device-hours | embed the corpus | steps between indexes | builders for one every {REFRESH_STEPS} |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for device in devices:
        for count in COUNTS:
            builders = max(1, count // TRAINERS_TO_BUILDERS)
            step, corpus = step_s(device, count), corpus_s(device, builders)
            hours = (count + builders) * STEPS * step / 3600
            lines.append(
                f"| {device.name} | {_short(device.peak_flops / 1e12)} "
                f"| {device.training_share:.0%} / {device.embedding_share:.0%} | {count} + {builders} "
                f"| {_duration(step)} | {_duration(STEPS * step)} | {hours:,.0f} | {_duration(corpus)} "
                f"| {corpus / step:,.0f} | {math.ceil(corpus * builders / (REFRESH_STEPS * step))} |"
            )
    return "\n".join(lines)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def _duration(seconds: float) -> str:
    for name, unit_s in (("years", 365.25 * 86400), ("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:,.1f} {name}"
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:,.0f} ms"
