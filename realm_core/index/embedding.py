"""Embedding many texts fast: longest first within a window, laid end to end, a fixed budget of wordpieces a batch."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from realm_core.model.embedder import Embedder
from realm_core.model.joining import Joiner
from realm_core.model.packed import Packed
from realm_core.text.joins import Joined

# Enough work to fill the machine, little enough to stay in cache on a CPU.
_WORDPIECES_PER_BATCH_CPU = 2048
_WORDPIECES_PER_BATCH_GPU = 131072


def batches_by_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Positions of `lengths` grouped so that a group holds similar lengths and at most `budget` in sum.

    A sequence longer than the budget makes a group of its own.
    """
    group: list[int] = []
    total = 0
    for position in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if group and total + lengths[position] > budget:
            yield group
            group, total = [], 0
        group.append(position)
        total += lengths[position]
    if group:
        yield group


def even_batches(lengths: Sequence[int], budget: int, at_once: int) -> list[list[int]]:
    """Positions of `lengths` in groups of about the same sum, about `budget` at most.

    at_once: their number is a multiple of it, as far as there are sequences.
    """
    rounds = math.ceil(sum(lengths) / (budget * at_once))
    groups: list[list[int]] = [[] for _ in range(min(rounds * at_once, len(lengths)))]
    lightest = [(0, number) for number in range(len(groups))]
    for position in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        total, number = lightest[0]
        groups[number].append(position)
        heapq.heapreplace(lightest, (total + lengths[position], number))
    return groups


def embed(embedder: Embedder, joined: Sequence[Joined]) -> Tensor:
    """Vectors [len(joined), D], float32 on the CPU, in the order given."""
    device = embedder.dense.weight.device
    budget = _WORDPIECES_PER_BATCH_GPU if device.type == "cuda" else _WORDPIECES_PER_BATCH_CPU
    vectors_BD = torch.empty(len(joined), embedder.dense.out_features)
    with torch.inference_mode():
        for group in batches_by_length([len(sequence.ids) for sequence in joined], budget):
            batch = Packed.of([joined[i].ids for i in group], [joined[i].segments for i in group])
            vectors_BD[group] = embedder(batch.to(device)).float().cpu()
    return vectors_BD


def embed_rows(embedder: Embedder, joiner: Joiner, rows: Sequence[int], limit: int) -> Tensor:
    """Vectors [len(rows), D], float32 on the CPU, of the blocks in `rows`, whose wordpieces are at hand."""
    device = embedder.dense.weight.device
    budget = _WORDPIECES_PER_BATCH_GPU if device.type == "cuda" else _WORDPIECES_PER_BATCH_CPU
    rows_B = np.asarray(rows)
    vectors_BD = torch.empty(len(rows_B), embedder.dense.out_features, device=device)
    with torch.inference_mode():
        for group in batches_by_length(joiner.block_lengths(rows_B, limit).tolist(), budget):
            vectors_BD[torch.tensor(group, device=device)] = embedder(joiner.blocks(rows_B[group], limit)).float()
    return vectors_BD.cpu()
