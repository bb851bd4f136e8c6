"""Questions and their blocks as tensors: what one part of a step of `train-reader` reads.

All of it is made on the CPU, in processes of its own while a GPU computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from realm_core.model.config import ModelConfig
from realm_core.model.packed import Packed
from realm_core.model.pairs import collate
from realm_core.model.reader import Bodies
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.reading_rows import ReadingExample, ReadingRow, example_of


@dataclass(frozen=True)
class ReadingBatch:
    """P pairs of G questions.

    pairs, bodies: the reader's input; written: the same with the questions as written, for a teacher.
    places_2P:     question and rank of each pair; scores_P: f(x, z), 0 where a row is learnt by itself.
    correct_3C:    pair, first and last body wordpiece of each span that reads an answer.
    answered_P:    whether the block holds an answer.
    """

    pairs: Packed
    bodies: Bodies
    written: tuple[Packed, Bodies] | None
    places_2P: Tensor
    scores_P: Tensor
    correct_3C: Tensor
    answered_P: Tensor
    questions: int

    @classmethod
    def of(cls, groups: Sequence[Sequence[tuple[ReadingRow, ReadingExample]]], *, taught: bool) -> ReadingBatch:
        examples = [example for group in groups for _, example in group]
        places = [(number, rank) for number, group in enumerate(groups) for rank in range(len(group))]
        spans = [(pair, *span) for pair, example in enumerate(examples) for span in sorted(example.spans)]
        return cls(
            *collate([example.pair for example in examples]),
            collate([example.written for example in examples]) if taught else None,
            torch.tensor(places, dtype=torch.long).T.contiguous(),
            torch.tensor([row.score or 0.0 for group in groups for row, _ in group]),
            torch.tensor(spans, dtype=torch.long).reshape(-1, 3).T.contiguous(),
            torch.tensor([bool(example.spans) for example in examples]),
            len(groups),
        )

    def correct(self, width: int, like_PS: Tensor) -> Tensor:
        """bool [P, S], True at the spans that read an answer; `width`: as in the reader's logits."""
        pair_C, first_C, last_C = self.correct_3C.to(like_PS.device)
        fits_C = last_C - first_C < width
        correct_PS = torch.zeros_like(like_PS, dtype=torch.bool)
        correct_PS[pair_C[fits_C], (first_C * width + last_C - first_C)[fits_C]] = True
        return correct_PS & torch.isfinite(like_PS)


def batches_of(
    groups: Sequence[Sequence[ReadingRow]],
    config: ModelConfig,
    wordpieces: Wordpieces,
    at_once: int,
    *,
    taught: bool = False,
) -> list[ReadingBatch]:
    """The groups in parts of at most `at_once` rows, or of one group.

    Rows whose answers are not in the part of the block that is read are left out.
    """
    read = []
    for group in groups:
        made = [(row, example) for row in group if (example := example_of(row, config, wordpieces)) is not None]
        if made:
            read.append(made)
    return [ReadingBatch.of(part, taught=taught) for part in _parts(read, at_once)]


def _parts(
    groups: Sequence[Sequence[tuple[ReadingRow, ReadingExample]]], at_once: int
) -> Iterator[Sequence[Sequence[tuple[ReadingRow, ReadingExample]]]]:
    start = rows = 0
    for number, group in enumerate(groups):
        if number > start and rows + len(group) > at_once:
            yield groups[start:number]
            start, rows = number, 0
        rows += len(group)
    if groups:
        yield groups[start:]
