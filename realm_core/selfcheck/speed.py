"""The speed of a device: matrix peak, blocks embedded per second, sequences trained per second, memory.

A share of the peak is the time that the layers' products would take at the peak, divided by the time of everything
except tokenising, which needs a vocabulary. Operations are counted in `model/operations.py`.
"""

from __future__ import annotations

import copy
import dataclasses
import resource
import statistics
import sys
import time
from collections.abc import Callable

import torch

from realm_core.model.device import fast_dtype
from realm_core.model.operations import PretrainingWork, encoder_flops
from realm_core.selfcheck import losses
from realm_core.selfcheck.networks import Networks, draw_sample
from realm_core.training.loop import no_dropout_in_attention

_LARGE_CPU, _LARGE_GPU = 4096, 8192  # side of the square matrices of the peak
_SENTENCES_CPU, _SENTENCES_GPU = 1, 8  # of a step
_BLOCKS_CPU, _BLOCKS_GPU = 16, 512  # embedded at once
_BODY = (90, 280)  # wordpieces of a block's body
_QUERY = (14, 60)
_MASKS = 3
K = 8  # blocks of a sentence
_LEAST_RUNS = 3
_DROPOUT = 0.1


@dataclasses.dataclass(frozen=True)
class Speed:
    """Measured in the dtype in which the device is fastest. Shares are of `peak_flops` (per second)."""

    dtype: str
    peak_flops: float
    blocks_per_s: float
    embedding_share: float
    sequences_per_s: float  # masked sentences, each with k blocks
    training_share: float
    memory_bytes: int


def measure_speed(networks: Networks, device: torch.device, seconds: float) -> Speed:
    """Repeat each measurement for `seconds`, and at least three times; medians. `networks` does not change."""
    gpu = device.type == "cuda"
    dtype = fast_dtype(device)
    large = _LARGE_GPU if gpu else _LARGE_CPU
    peak = 2.0 * large**3 / fastest_product_s((large, large, large), dtype, device, seconds)
    if gpu:
        torch.cuda.reset_peak_memory_stats(device)
    blocks_per_s, embedding_flops = _embedding(networks, device, _BLOCKS_GPU if gpu else _BLOCKS_CPU, seconds)
    sequences_per_s, training_flops = _training(networks, device, _SENTENCES_GPU if gpu else _SENTENCES_CPU, seconds)
    return Speed(
        dtype=str(dtype).removeprefix("torch."),
        peak_flops=peak,
        blocks_per_s=blocks_per_s,
        embedding_share=embedding_flops / peak,
        sequences_per_s=sequences_per_s,
        training_share=training_flops / peak,
        memory_bytes=torch.cuda.max_memory_allocated(device) if gpu else _resident_bytes(),
    )


def fastest_product_s(shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device, seconds: float) -> float:
    """Seconds of [m, k] × [k, n] by torch.mm, the fastest try within `seconds`."""
    m, k, n = shape
    left, right = torch.randn(m, k, device=device).to(dtype), torch.randn(k, n, device=device).to(dtype)
    out = torch.empty(m, n, dtype=dtype, device=device)
    return min(_times(lambda: torch.mm(left, right, out=out), device, seconds))


def _times(work: Callable[[], object], device: torch.device, seconds: float) -> list[float]:
    """Seconds of each run of `work` after a first one that compiles and allocates."""
    times: list[float] = []
    until = 0.0
    while len(times) < _LEAST_RUNS + 1 or time.perf_counter() < until:
        started_at = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started_at)
        until = until or time.perf_counter() + seconds
    return times[1:]


def _embedding(networks: Networks, device: torch.device, blocks: int, seconds: float) -> tuple[float, float]:
    """(blocks per second, operations per second) of the embedder as the index builder runs it."""
    embedder = copy.deepcopy(networks.embedder)
    embedder.for_inference(device)
    batch = draw_sample(networks.config, sentences=1, k=blocks, query=_QUERY, body=_BODY, masks=_MASKS).blocks
    here = batch.to(device)
    with torch.inference_mode():
        taken_s = statistics.median(_times(lambda: embedder(here), device, seconds))
    return blocks / taken_s, encoder_flops(networks.config, batch.lengths) / taken_s


def _training(networks: Networks, device: torch.device, sentences: int, seconds: float) -> tuple[float, float]:
    """(sequences per second, operations per second) of pre-training: forward, backward and optimiser."""
    copies = dataclasses.replace(
        networks, embedder=copy.deepcopy(networks.embedder), encoder=copy.deepcopy(networks.encoder)
    )
    for part in (copies.embedder, copies.encoder):
        part.to(device).train()
        no_dropout_in_attention(part.bert, _DROPOUT)
    trained = [p for part in (copies.embedder, copies.encoder) for p in part.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=0.0, fused=True)
    sample = draw_sample(networks.config, sentences=sentences, k=K, query=_QUERY, body=_BODY, masks=_MASKS)
    here = sample.to(device)

    def step() -> None:
        losses.pretraining_loss(copies, here, fast_dtype(device)).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    taken_s = statistics.median(_times(step, device, seconds))
    work = PretrainingWork(
        queries=sample.queries.lengths,
        blocks=sample.blocks.lengths,
        pairs=sample.pairs.lengths,
        masks=sample.masked_BKJ.numel(),
        dimension=sample.matrix_BKD.shape[-1],
    )
    return sentences / taken_s, work.flops(networks.config) / taken_s


def _resident_bytes() -> int:
    """Peak memory of this process."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
