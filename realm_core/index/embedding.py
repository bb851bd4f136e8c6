"""Embeds many texts in packed batches of similar lengths with a fixed budget of wordpieces."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from realm_core.computing import compute_each, in_one_thread
from realm_core.model.embedder import Embedder
from realm_core.model.joiner import Joiner
from realm_core.model.packed import Packed
from realm_core.text.joins import Joined

# Large enough to use the whole device, small enough for a CPU's cache.
_WORDPIECES_PER_BATCH_CPU = 1024
_WORDPIECES_PER_BATCH_GPU = 131072
_WORDPIECES_OF_A_THREAD = 64  # a question or two


def batches_by_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Positions of `lengths` in groups of similar lengths whose sum is at most `budget`.

    A sequence longer than the budget is a group of its own.
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
    """Positions of `lengths` in groups of about equal sums of at most about `budget`.

    at_once: groups that are processed in parallel. Each such round covers consecutive positions, so that results are
             finished in order.
    """
    rounds = math.ceil(sum(lengths) / (budget * at_once))
    places = [(end - length / 2) for length, end in zip(lengths, itertools.accumulate(lengths), strict=True)]
    groups = []
    for _, together in itertools.groupby(range(len(lengths)), lambda i: int(places[i] * rounds / sum(lengths))):
        own: list[tuple[int, list[int]]] = [(0, []) for _ in range(at_once)]
        for position in sorted(together, key=lambda i: -lengths[i]):
            lightest = min(range(at_once), key=lambda number: own[number][0])
            total, group = own[lightest]
            own[lightest] = (total + lengths[position], [*group, position])
        groups += [group for _, group in own if group]
    return groups


def embed(embedder: Embedder, joined: Sequence[Joined]) -> Tensor:
    """Vectors [len(joined), D], float32 on the CPU, in the order of `joined`."""
    device = embedder.dense.weight.device
    vectors_BD = torch.empty(len(joined), embedder.dense.out_features)

    def embed_group(group: list[int]) -> None:
        with torch.inference_mode():
            batch = Packed.of([joined[i].ids for i in group], [joined[i].segments for i in group])
            vectors_BD[group] = embedder(batch.to(device)).float().cpu()

    _each_group([len(sequence.ids) for sequence in joined], device, embed_group)
    return vectors_BD


def embed_rows(embedder: Embedder, joiner: Joiner, rows: Sequence[int], limit: int) -> Tensor:
    """Vectors [len(rows), D], float32 on the CPU, of the blocks in `rows` from tokenised blocks."""
    device = embedder.dense.weight.device
    rows_B = np.asarray(rows)
    vectors_BD = torch.empty(len(rows_B), embedder.dense.out_features, device=device)

    def embed_group(group: list[int]) -> None:
        with torch.inference_mode():
            vectors_BD[torch.tensor(group, device=device)] = embedder(joiner.blocks(rows_B[group], limit)).float()

    _each_group(joiner.block_lengths(rows_B, limit).tolist(), device, embed_group)
    return vectors_BD.cpu()


def _each_group(lengths: Sequence[int], device: torch.device, do: Callable[[list[int]], None]) -> None:
    if device.type == "cuda":
        for group in batches_by_length(lengths, _WORDPIECES_PER_BATCH_GPU):
            do(group)
    elif sum(lengths) <= _WORDPIECES_OF_A_THREAD:
        with in_one_thread():
            do(list(range(len(lengths))))
    else:
        groups = even_batches(lengths, _WORDPIECES_PER_BATCH_CPU, torch.get_num_threads())
        for _ in compute_each([partial(do, group) for group in groups]):
            pass
