"""Question and block as input of the reader: one sequence, with the word boundaries of the body."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from realm_core.model.config import ModelConfig
from realm_core.model.packed import Packed
from realm_core.model.reader import Bodies
from realm_core.questions.matching import word_edges
from realm_core.text.joins import join_pair
from realm_core.text.sentences import sentence_spans
from realm_core.text.wordpieces import Encoded, Wordpieces


@dataclass(frozen=True)
class ReadingPair:
    """join(x, z) with its body's wordpieces after truncation.

    offsets:     their character offsets in the body's text.
    word_starts, word_ends: whether a word starts or ends at each wordpiece.
    room:        for each wordpiece the longest span that starts there: wordpieces up to the end of its sentence.
    """

    ids: list[int]
    segments: list[int]
    body_start: int
    offsets: list[tuple[int, int]]
    word_starts: list[bool]
    word_ends: list[bool]
    room: list[int]

    @classmethod
    def of(
        cls, wordpieces: Wordpieces, config: ModelConfig, question: Encoded, title: Encoded, body: Encoded, text: str
    ) -> ReadingPair:
        """The pair, joined by the model's configuration. text: of the body."""
        joined = join_pair(
            wordpieces,
            question,
            title if config.reader_title else None,
            body,
            question_limit=config.query_wordpieces,
            limit=config.reader_wordpieces,
        )
        length = joined.body_stop - joined.body_start
        starts, ends = word_edges(body)
        return cls(
            joined.ids,
            joined.segments,
            joined.body_start,
            body.offsets[:length],
            starts[:length],
            ends[:length],
            _rooms(text, body.offsets[:length]),
        )


def _rooms(text: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """For each wordpiece, the wordpieces up to the end of its sentence: answers do not cross sentences."""
    begins = [start for start, _ in sentence_spans(text)]
    sentences = [bisect_right(begins, start) for start, _ in offsets]
    rooms = [1] * len(offsets)
    for place in range(len(offsets) - 2, -1, -1):
        if sentences[place] == sentences[place + 1]:
            rooms[place] += rooms[place + 1]
    return rooms


def collate(pairs: Sequence[ReadingPair]) -> tuple[Packed, Bodies]:
    packed = Packed.of([pair.ids for pair in pairs], [pair.segments for pair in pairs])
    lengths = tuple(len(pair.offsets) for pair in pairs)
    firsts = [start + pair.body_start for start, pair in zip(packed.starts(), pairs, strict=True)]
    return packed, Bodies(
        positions_N=torch.tensor(
            [first + i for first, n in zip(firsts, lengths, strict=True) for i in range(n)], dtype=torch.long
        ),
        room_N=torch.tensor([room for pair in pairs for room in pair.room], dtype=torch.long),
        word_start_N=torch.tensor([flag for pair in pairs for flag in pair.word_starts], dtype=torch.bool),
        word_end_N=torch.tensor([flag for pair in pairs for flag in pair.word_ends], dtype=torch.bool),
        lengths=lengths,
    )
