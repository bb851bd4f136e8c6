"""BERT over packed (concatenated) sequences, without padding.

Layers run once over all T wordpieces; only attention uses the boundaries of the sequences. Results equal the padded
computation of transformers (a test compares them).

Legend: B sequences, T wordpieces of all sequences, W hidden width.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from realm_core.model.attention import Layout
from realm_core.model.bert import Bert


@dataclass(frozen=True)
class Packed:
    """B concatenated sequences of wordpieces.

    ids_T, segments_T, positions_T: int64; lengths: B positive integers that sum to T.
    """

    ids_T: Tensor
    segments_T: Tensor
    positions_T: Tensor
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, ids: Sequence[Sequence[int]], segments: Sequence[Sequence[int]] | None = None) -> Packed:
        """Pack the sequences `ids` (with `segments`, default 0)."""
        lengths = tuple(len(sequence) for sequence in ids)
        return cls(
            ids_T=_concatenated(ids, sum(lengths)),
            segments_T=torch.zeros(sum(lengths), dtype=torch.long)
            if segments is None
            else _concatenated(segments, sum(lengths)),
            positions_T=torch.cat([torch.arange(length) for length in lengths]),
            lengths=lengths,
        )

    def to(self, device: torch.device) -> Packed:
        return Packed(self.ids_T.to(device), self.segments_T.to(device), self.positions_T.to(device), self.lengths)

    def starts(self) -> list[int]:
        """Position in T of each sequence's first wordpiece."""
        return list(itertools.accumulate(self.lengths, initial=0))[:-1]

    def layout(self) -> Layout:
        """The boundaries of the sequences, for attention on the device of the wordpieces."""
        return Layout(self.lengths, self.ids_T.device)


def _concatenated(sequences: Sequence[Sequence[int]], total: int) -> Tensor:
    return torch.from_numpy(np.fromiter(itertools.chain.from_iterable(sequences), np.int64, total))


def encode(bert: Bert, batch: Packed) -> Tensor:
    """Hidden states [T, W] of the last layer, in the dtype of `bert`'s weights."""
    hidden_TW: Tensor = bert(batch.ids_T, batch.segments_T, batch.positions_T, batch.layout())
    return hidden_TW
