"""The lexical part b(x, z) and the offset o(z) of every block of a corpus at once: `lexical.py` has the formula.

For each wordpiece its postings are kept: the blocks that have it, and what it adds to b of each. They take about 600
bytes a block.

Legend: B questions, V blocks, W different wordpieces of a question, T wordpieces of all blocks, P postings, O different
wordpieces of all blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import BlockTokens, open_tokens, tokenised
from realm_core.errors import CannotStore, RealmError
from realm_core.index.lexical import Numbers, addends, offsets, wanted_wordpieces
from realm_core.runs.activity import Activity
from realm_core.text.wordpieces import Wordpieces

MOST_ROWS = 100_000  # of a corpus whose blocks are all scored: 60 MB, and some milliseconds for each question


class Postings:
    """Immutable and thread-safe. offsets_V: what is added to the score of each block for its source: o(z)."""

    def __init__(self, tokens: BlockTokens, offsets_V: Numbers) -> None:
        self._blocks, self.offsets_V = len(tokens), offsets_V
        lengths = [np.diff(part.starts_N1) for part in (tokens.titles, tokens.bodies)]
        rows_T = np.concatenate([np.repeat(np.arange(self._blocks), own_V) for own_V in lengths])
        ids_T = np.concatenate([tokens.titles.values_T, tokens.bodies.values_T]).astype(np.int64)
        pairs_P, tf_P = np.unique(ids_T * max(self._blocks, 1) + rows_T, return_counts=True)
        wordpieces_P, blocks_P = np.divmod(pairs_P, max(self._blocks, 1))
        vocabulary = Wordpieces.default().vocabulary_size
        if len(wordpieces_P) and wordpieces_P[-1] >= vocabulary:
            raise RealmError(f"The cached wordpieces are damaged: there is no wordpiece {wordpieces_P[-1]}.")
        # Those that occur, ascending, and where the postings of each begin: a segment of few blocks takes few bytes.
        self._wordpieces_O, firsts = np.unique(wordpieces_P, return_index=True)
        self._starts_O1 = np.append(firsts, len(wordpieces_P))
        self._blocks_P = blocks_P.astype(np.int32)
        self._addends_P = addends(wordpieces_P, tf_P, (lengths[0] + lengths[1])[blocks_P]).astype(np.float32)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Postings:
        """Those of a snapshot, whose wordpieces are cached beside it, if the disk takes them."""
        quiet = Activity(quiet=True)
        try:
            return cls(open_tokens(snapshot, quiet), offsets(snapshot))
        except CannotStore:
            return cls(tokenised(snapshot, quiet), offsets(snapshot))

    @classmethod
    def in_memory(cls, snapshot: Snapshot) -> Postings:
        """Those of a small snapshot, which comes and goes."""
        return cls(tokenised(snapshot, Activity(quiet=True)), offsets(snapshot))

    def scores(self, wanted_W: Numbers) -> Numbers:
        """b of every block, float32 [V]."""
        scores_V = np.zeros(self._blocks, np.float32)
        occurring_W = wanted_W[np.isin(wanted_W, self._wordpieces_O)]
        for place in np.searchsorted(self._wordpieces_O, occurring_W).tolist():
            own = slice(self._starts_O1[place], self._starts_O1[place + 1])
            scores_V[self._blocks_P[own]] += self._addends_P[own]  # a block has one posting of a wordpiece
        return scores_V


@dataclass(frozen=True)
class LexicalPart:
    """λ · b(x, z) + o(z) of some questions, which a search adds to the scores of all blocks. weight: λ."""

    wanted: tuple[Numbers, ...]
    weight: float
    _known: dict[Postings, Tensor] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, questions: Sequence[str], weight: float) -> LexicalPart:
        """That of each question."""
        return cls(tuple(map(wanted_wordpieces, questions)), weight)

    def at(self, places: Sequence[int]) -> LexicalPart:
        """That of some of the questions."""
        return LexicalPart(tuple(self.wanted[place] for place in places), self.weight)

    def scores(self, postings: Postings) -> Tensor:
        """λ · b + o of each question and block, float32 [B, V]; computed once, also where several searches need it."""
        if postings not in self._known:
            scores_BV = np.stack([postings.scores(wanted_W) for wanted_W in self.wanted])
            self._known[postings] = torch.from_numpy(scores_BV) * self.weight + torch.from_numpy(postings.offsets_V)
        return self._known[postings]
