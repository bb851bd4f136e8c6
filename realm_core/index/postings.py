"""The lexical parts b(x, z), n(x, z) and o(z) of every block of a corpus at once: `lexical.py` has the formula.

For each wordpiece its postings are kept: the blocks that have it, and its share of what it adds to b at most. Blocks
are divided into parts, which are made one by one. A posting takes 4 bytes: the block's place in its part, and the share
in 65,535ths, which changes what the wordpiece adds to b by less than 0.0002.

A snapshot's postings are beside it, in a hidden folder that is read through a memory map: four arrays for each part,
and `manifest.json` with their checksums, written last. They are made again where they are missing or damaged.

Legend: B questions, V blocks, U blocks of a part, W different wordpieces of a question, T wordpieces of all blocks,
P postings of a part, O different wordpieces of a part.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from realm_core.arrays import open_array, save_array
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tables import postings_folder, tokens_folder
from realm_core.corpus.tokens import BlockTokens, open_tokens, tokenised
from realm_core.errors import CannotStore, RealmError
from realm_core.files import sha256_of_file
from realm_core.index.choice import EXACT_ROWS
from realm_core.index.lexical import NAME_WEIGHT, WantedWords, most_added, offsets, shares
from realm_core.index.rarity import Numbers
from realm_core.index.word_count import WordCount
from realm_core.runs.activity import Activity
from realm_core.runs.derived import derive_folder
from realm_core.text.wordpieces import Wordpieces

MOST_ROWS = EXACT_ROWS
"""Of a corpus whose blocks are all scored. Where all vectors are, this takes a tenth of their time, and half as much
memory as they do, mapped (docs/experiments.md). Approximate search looks at far fewer blocks."""
PART_BLOCKS = 1 << 15  # 16 bits can tell twice as many apart, which would take twice the memory to make
FORMAT = 1  # raise it when a block's wordpieces or what they count change
_STEPS: Final = 65_535
_DTYPES: Final = {"wordpieces_O": np.uint16, "starts_O1": np.int64, "blocks_P": np.uint16, "shares_P": np.uint16}

log = logging.getLogger(__name__)


class _Part(NamedTuple):
    """The postings of consecutive blocks, by wordpiece.

    wordpieces_O: in ascending order; starts_O1: where the postings of each begin, then their number.
    blocks_P, shares_P: of each posting, with ascending blocks.
    """

    wordpieces_O: Numbers
    starts_O1: Numbers
    blocks_P: Numbers
    shares_P: Numbers

    @classmethod
    def of(cls, tokens: BlockTokens) -> _Part:
        lengths_U = np.zeros(len(tokens), np.float32)
        pairs = []  # the wordpiece in the upper 16 bits, its block in the lower
        for ragged in (tokens.titles, tokens.bodies):
            own_U = np.diff(ragged.starts_N1)
            lengths_U += own_U
            pairs.append(ragged.values_T.astype(np.uint32) << 16)
            pairs[-1] |= np.repeat(np.arange(len(tokens), dtype=np.uint32), own_U)
        pairs_T = np.concatenate(pairs)
        pairs_T.sort()
        firsts_P = np.flatnonzero(np.diff(pairs_T, prepend=pairs_T[:1] + 1))
        tf_P = np.diff(firsts_P, append=len(pairs_T)).astype(np.float32)
        wordpieces_P, blocks_P = (pairs_T[firsts_P] >> 16).astype(np.uint16), pairs_T[firsts_P].astype(np.uint16)
        shares_P = np.rint(shares(tf_P, lengths_U[blocks_P]) * _STEPS).astype(np.uint16)
        wordpieces_O, starts_O = np.unique(wordpieces_P, return_index=True)
        if len(wordpieces_O) and wordpieces_O[-1] >= Wordpieces.default().vocabulary_size:
            raise RealmError(f"The cached wordpieces are damaged: there is no wordpiece {wordpieces_O[-1]}.")
        return cls(wordpieces_O, np.append(starts_O, len(wordpieces_P)), blocks_P, shares_P)

    def add_to(self, scores_U: Numbers, wanted: WantedWords, steps_W: Numbers) -> None:
        """Add the scores of a part's blocks. steps_W: the addend of a 65,535th of a share, float32."""
        for own, step in zip(self._postings_of(wanted.ids_W), steps_W, strict=True):
            np.add.at(scores_U, self.blocks_P[own].astype(np.intp), self.shares_P[own] * step)
        for name_W in wanted.names:
            lists = sorted((self.blocks_P[own] for own in self._postings_of(name_W)), key=len)  # the shortest first
            scores_U[reduce(partial(np.intersect1d, assume_unique=True), lists)] += NAME_WEIGHT

    def _postings_of(self, ids_W: Numbers) -> Iterator[slice]:
        for place, wordpiece in zip(np.searchsorted(self.wordpieces_O, ids_W).tolist(), ids_W, strict=True):
            occurs = place < len(self.wordpieces_O) and self.wordpieces_O[place] == wordpiece
            yield slice(self.starts_O1[place], self.starts_O1[place + 1]) if occurs else slice(0)


class Postings:
    """Immutable and thread-safe. offsets_V: o(z) of each block, which depends on its source."""

    def __init__(self, offsets_V: Numbers, parts: Callable[[], Sequence[_Part]]) -> None:
        self._offsets_V, self._opened = offsets_V, parts

    @classmethod
    def of(cls, snapshot: Snapshot) -> Postings:
        """A snapshot's postings, kept beside it if the disk takes them; opened or made for the first question."""
        return cls(offsets(snapshot), partial(_kept, snapshot))

    @classmethod
    def in_memory(cls, snapshot: Snapshot) -> Postings:
        """The postings of a small, short-lived snapshot."""
        return cls(offsets(snapshot), lambda: list(_made(snapshot, Activity(quiet=True))))

    @cached_property
    def _parts(self) -> Sequence[_Part]:
        return self._opened()

    def scores(self, wanted: Sequence[WantedWords], weight: float) -> Numbers:
        """λ · b + ν · n + o of each question and block, float32 [B, V]. wanted: of each question. weight: λ."""
        scores_BV = np.tile(self._offsets_V, (len(wanted), 1))
        if weight:
            steps = [(most_added(one.ids_W) * (weight / _STEPS)).astype(np.float32) for one in wanted]
            for number, part in enumerate(self._parts):
                own = slice(number * PART_BLOCKS, (number + 1) * PART_BLOCKS)
                for scores_V, one, steps_W in zip(scores_BV, wanted, steps, strict=True):
                    part.add_to(scores_V[own], one, steps_W)
        return scores_BV


def keep_postings(snapshot: Snapshot, activity: Activity) -> None:
    """Make a snapshot's postings beside it for later searches, unless they exist or the disk takes none."""
    if len(snapshot) <= MOST_ROWS:
        try:
            _stored(snapshot, activity)
        except CannotStore as full:
            activity.say(f"What finds blocks by words is not kept, and made at each start instead: {full}")


def _made(snapshot: Snapshot, activity: Activity) -> Iterator[_Part]:
    # A training or a GPU's build has cached them: reading them takes a fiftieth of the time.
    tokens = open_tokens(snapshot, activity) if tokens_folder(snapshot.folder).exists() else None
    for start in range(0, len(snapshot), PART_BLOCKS):
        rows = range(start, min(start + PART_BLOCKS, len(snapshot)))
        yield _Part.of(tokenised(snapshot, activity, rows) if tokens is None else tokens.of(rows))


def _kept(snapshot: Snapshot) -> Sequence[_Part]:
    with closing(WordCount()) as counting:
        try:
            return _stored(snapshot, counting)
        except CannotStore as full:
            log.warning("What finds blocks by words is made in memory: %s", full)
            return list(_made(snapshot, counting))


def _stored(snapshot: Snapshot, activity: Activity) -> Sequence[_Part]:
    """The parts beside a snapshot, made if missing or damaged. `CannotStore` if the disk takes none."""
    folder = postings_folder(snapshot.folder)
    identity: dict[str, Any] = {
        "format": FORMAT,
        "snapshot_id": snapshot.snapshot_id,
        "tokenizer_sha256": sha256_of_file(Wordpieces.default().path),
        "parts": -(-len(snapshot) // PART_BLOCKS),
        "part_blocks": PART_BLOCKS,
    }
    derive_folder(folder, identity, partial(_write, snapshot, activity))
    return [
        _Part(*(open_array(_file(folder, number, name), dtype, (None,)) for name, dtype in _DTYPES.items()))
        for number in range(identity["parts"])
    ]


def _write(snapshot: Snapshot, activity: Activity, folder: Path) -> None:
    activity.say("Counting the wordpieces of the corpus, once.")
    for number, part in enumerate(_made(snapshot, activity)):
        for name, array in part._asdict().items():
            save_array(_file(folder, number, name), array)


def _file(folder: Path, number: int, name: str) -> Path:
    return folder / f"{name.rpartition('_')[0]}-{number:05d}.npy"


@dataclass(frozen=True)
class LexicalPart:
    """λ · b(x, z) + ν · n(x, z) + o(z) of questions, which a search adds to the scores of all blocks. weight: λ."""

    wanted: tuple[WantedWords, ...]
    weight: float
    _known: dict[Postings, Tensor] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, questions: Sequence[str], weight: float) -> LexicalPart:
        return cls(tuple(map(WantedWords.of, questions)), weight)

    def at(self, places: Sequence[int]) -> LexicalPart:
        return LexicalPart(tuple(self.wanted[place] for place in places), self.weight)

    def scores(self, postings: Postings) -> Tensor:
        """Of each question and block, float32 [B, V]; computed once, also where several searches need it."""
        if postings not in self._known:
            self._known[postings] = torch.from_numpy(postings.scores(self.wanted, self.weight))
        return self._known[postings]
