"""join(x), join(z) and join(x, z) of whole batches from concatenated wordpieces: a few gathers instead of a loop.

The batched version of `text.joins`, for training and index refreshes; a test compares the two. Runs on the device of
the wordpieces.

Legend: N blocks, P sequences, T wordpieces of all sequences, C pieces of a sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from realm_core.arrays import Array
from realm_core.corpus.tokens import BlockTokens, Ragged
from realm_core.model.packed import Packed
from realm_core.text.wordpieces import Wordpieces


@dataclass(frozen=True)
class Pieces:
    """One piece of each sequence: P slices of one tensor of wordpieces.

    source_S: ids, on the device; starts_P, lengths_P: the slice of each sequence; segment: token type.
    """

    source_S: Tensor
    starts_P: Array
    lengths_P: Array
    segment: int

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]], device: torch.device, segment: int = 0) -> Pieces:
        """Pieces from lists of ids."""
        lengths = np.array([len(sequence) for sequence in sequences], np.int64)
        flat = np.fromiter((i for sequence in sequences for i in sequence), np.int64, int(lengths.sum()))
        return cls(torch.from_numpy(flat).to(device), np.cumsum(lengths) - lengths, lengths, segment)

    def repeated(self, times: int) -> Pieces:
        """Each slice repeated `times` times in a row."""
        return Pieces(self.source_S, np.repeat(self.starts_P, times), np.repeat(self.lengths_P, times), self.segment)

    def cut(self, limit_P: Array | int) -> Pieces:
        """Slices truncated to `limit_P`."""
        return Pieces(self.source_S, self.starts_P, np.minimum(self.lengths_P, np.maximum(limit_P, 0)), self.segment)


def concatenated(pieces: Sequence[Pieces]) -> Packed:
    """Packed sequences, each the concatenation of its pieces in this order."""
    device = pieces[0].source_S.device
    lengths_PC = np.stack([piece.lengths_P for piece in pieces], axis=1)
    lengths_P = lengths_PC.sum(1)
    total = int(lengths_P.sum())
    # One run of wordpieces per (sequence, piece), in the order of T.
    runs = lengths_PC.reshape(-1)
    run_starts = np.cumsum(runs) - runs
    shift_runs = np.stack([piece.starts_P for piece in pieces], axis=1).reshape(-1) - run_starts
    sequence_starts = np.repeat(np.cumsum(lengths_P) - lengths_P, len(pieces))
    table = torch.from_numpy(np.stack([shift_runs, sequence_starts, runs])).to(device)
    run_T = torch.repeat_interleave(torch.arange(len(runs), device=device), table[2], output_size=total)
    place_T = torch.arange(total, device=device)
    index_T = place_T + table[0][run_T]
    piece_T = run_T % len(pieces)
    ids_T = torch.zeros(total, dtype=torch.long, device=device)
    for number, piece in enumerate(pieces):
        if len(piece.source_S):
            taken_T = piece.source_S[index_T.clamp(0, len(piece.source_S) - 1)].long()
            ids_T = torch.where(piece_T == number, taken_T, ids_T)
    segments = torch.tensor([piece.segment for piece in pieces], device=device)
    return Packed(ids_T, segments[piece_T], place_T - table[1][run_T], tuple(lengths_P.tolist()))


class Joiner:
    """The joins over one corpus's wordpieces, which are held on `device`."""

    def __init__(self, tokens: BlockTokens, device: torch.device) -> None:
        wordpieces = Wordpieces.default()
        self.device = device
        self._cls = torch.tensor([wordpieces.cls_id], device=device)
        self._sep = torch.tensor([wordpieces.sep_id], device=device)
        self._titles, self._bodies = tokens.titles, tokens.bodies
        self._title_ids = _on(tokens.titles, device)
        self._body_ids = _on(tokens.bodies, device)

    def blocks(self, rows_P: Array, limit: int) -> Packed:
        """join(z) of the blocks in rows_P; row −1 is the null block, `[CLS] [SEP] [SEP]`."""
        title, body = self._title(rows_P), self._body(rows_P)
        body = body.cut(limit - 3 - title.lengths_P)
        return concatenated([_each(self._cls, rows_P), title, _each(self._sep, rows_P), body, self._end(rows_P)])

    def blocks_without(self, rows_P: Array, first_P: Array, stop_P: Array, limit: int) -> Packed:
        """join(z) of the blocks in rows_P without the body's wordpieces [first_P, stop_P)."""
        title, body = self._title(rows_P), self._body(rows_P)
        room_P = limit - 3 - title.lengths_P
        before = Pieces(body.source_S, body.starts_P, first_P, 1).cut(room_P)
        after = Pieces(body.source_S, body.starts_P + stop_P, body.lengths_P - stop_P, 1).cut(room_P - before.lengths_P)
        head = [_each(self._cls, rows_P), title, _each(self._sep, rows_P)]
        return concatenated([*head, before, after, self._end(rows_P)])

    def block_lengths(self, rows_P: Array, limit: int) -> Array:
        """Wordpieces of join(z) of the blocks in rows_P."""
        title_P, body_P = self._title(rows_P).lengths_P, self._body(rows_P).lengths_P
        return np.asarray(np.minimum(title_P + body_P + 3, np.maximum(limit, title_P + 3)))

    def queries(self, queries: Pieces) -> Packed:
        """join(x) of queries, which must be within the limit."""
        rows = queries.lengths_P
        return concatenated([_each(self._cls, rows), queries, _each(self._sep, rows)])

    def pairs(self, queries: Pieces, rows_P: Array, limit: int, *, title: bool) -> Packed:
        """join(x, z), x from `queries`, z from rows_P (−1: the null block); with `title`, the title is in between."""
        return self.readings(queries, rows_P, limit, title=title)[0]

    def readings(self, queries: Pieces, rows_P: Array, limit: int, *, title: bool) -> tuple[Packed, Array, Array]:
        """As `pairs`; also the offset of each body in T, and its number of wordpieces after truncation."""
        body = self._body(rows_P)
        head = [_each(self._cls, rows_P), queries, _each(self._sep, rows_P)]
        if title:
            own = self._title(rows_P)
            absent_P = rows_P < 0  # the null block has neither title nor its [SEP]
            separator = Pieces(self._sep, np.zeros_like(rows_P), np.where(absent_P, 0, 1), 1)
            head += [Pieces(own.source_S, own.starts_P, own.lengths_P, 1), separator]
        used_P = np.sum([piece.lengths_P for piece in head], axis=0)
        body = body.cut(limit - used_P - 1)
        packed = concatenated([*head, body, self._end(rows_P)])
        lengths_P = np.asarray(packed.lengths)
        return packed, np.cumsum(lengths_P) - lengths_P + used_P, body.lengths_P

    def _end(self, like_P: Array) -> Pieces:
        return _each(self._sep, like_P, 1)

    def _title(self, rows_P: Array) -> Pieces:
        return _slices(self._title_ids, self._titles.starts_N1, rows_P, 0)

    def _body(self, rows_P: Array) -> Pieces:
        return _slices(self._body_ids, self._bodies.starts_N1, rows_P, 1)


def _each(special: Tensor, like_P: Array, segment: int = 0) -> Pieces:
    return Pieces(special, np.zeros(len(like_P), np.int64), np.ones(len(like_P), np.int64), segment)


def _slices(ids_T: Tensor, starts_N1: Array, rows_P: Array, segment: int) -> Pieces:
    present_P = rows_P >= 0
    safe_P = np.where(present_P, rows_P, 0)
    starts_P = starts_N1[safe_P]
    return Pieces(ids_T, starts_P, np.where(present_P, starts_N1[safe_P + 1] - starts_P, 0), segment)


def _on(ragged: Ragged, device: torch.device) -> Tensor:
    # int16, because torch cannot index with uint16; all ids are below 2^15.
    return torch.from_numpy(np.asarray(ragged.values_T).view(np.int16)).to(device)
