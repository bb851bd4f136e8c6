"""Batched joins from cached wordpieces against joins of single sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import BlockTokens, open_tokens
from realm_core.model.joiner import Joiner, Pieces, concatenated
from realm_core.model.packed import Packed
from realm_core.runs.activity import Activity
from realm_core.text.joins import Joined, join_block, join_pair, join_query
from realm_core.text.wordpieces import Encoded, Wordpieces
from tests.nightly import examples
from tests.tiny import ARTICLES, tiny_snapshot

WORDPIECES = Wordpieces.default()
CPU = torch.device("cpu")
NULL = -1
NOTHING = Encoded([], [], [])
TEXTS = {
    **ARTICLES,
    "A title of many words " * 20: "Its body is short.",
    "東京": "Voilà 東京 😀: café, U.S. and [SEP].",
    "Lengthy": "Sentences follow one another without much sense. " * 60,  # more than one block
}
ROWS = st.lists(st.integers(NULL, len(TEXTS) - 1), min_size=1, max_size=6)
LIMITS = st.sampled_from([16, 40, 70, 128, 288, 512])
QUESTIONS = ["Who?", "", "When was the Suez Canal opened?", "why " * 80]


class Corpus:
    """A snapshot and its wordpieces."""

    def __init__(self, snapshot: Snapshot, tokens: BlockTokens) -> None:
        self.titles, self.texts = snapshot.titles_texts(0, len(snapshot))
        self.title_encodings = WORDPIECES.encode(self.titles)
        self.body_encodings = WORDPIECES.encode(self.texts)
        self.joiner = Joiner(tokens, CPU)
        self.tokens = tokens

    def blocks(self, rows: Sequence[int], limit: int) -> list[Joined]:
        """join(z), one at a time; the null block has neither title nor body."""
        titles = ["" if row == NULL else self.titles[row] for row in rows]
        return join_block(WORDPIECES, titles, ["" if row == NULL else self.texts[row] for row in rows], limit)

    def pairs(self, questions: Sequence[str], rows: Sequence[int], limit: int, *, title: bool) -> list[Joined]:
        """join(x, z), one at a time."""
        return [
            join_pair(
                WORDPIECES,
                question,
                None if row == NULL or not title else self.title_encodings[row],
                NOTHING if row == NULL else self.body_encodings[row],
                question_limit=64,
                limit=limit,
            )
            for question, row in zip(WORDPIECES.encode(questions), rows, strict=True)
        ]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    snapshot = Snapshot.open(tiny_snapshot(tmp_path_factory.mktemp("joining"), TEXTS))
    assert len(snapshot) > len(TEXTS)
    return Corpus(snapshot, open_tokens(snapshot, Activity(quiet=True)))


def queries(texts: Sequence[str], limit: int = 64) -> Pieces:
    return Pieces.of([ids[: limit - 2] for ids in WORDPIECES.ids(list(texts))], CPU)


def assert_same(packed: Packed, joined: Sequence[Joined]) -> None:
    wanted = Packed.of([one.ids for one in joined], [one.segments for one in joined])
    assert packed.lengths == wanted.lengths
    for name in ("ids_T", "segments_T", "positions_T"):
        made = getattr(packed, name)
        assert made.dtype == torch.int64 and made.tolist() == getattr(wanted, name).tolist(), name


@settings(max_examples=examples(100))
@given(rows=ROWS, limit=LIMITS)
def test_blocks(corpus: Corpus, rows: list[int], limit: int) -> None:
    packed = corpus.joiner.blocks(np.array(rows), limit)
    assert_same(packed, corpus.blocks(rows, limit))
    assert tuple(corpus.joiner.block_lengths(np.array(rows), limit).tolist()) == packed.lengths


def test_the_null_block_is_an_ordinary_empty_one(corpus: Corpus) -> None:
    packed = corpus.joiner.blocks(np.array([NULL]), 288)
    assert WORDPIECES.pieces(packed.ids_T.tolist()) == ["[CLS]", "[SEP]", "[SEP]"]
    assert packed.segments_T.tolist() == [0, 0, 1]
    pair = corpus.joiner.pairs(queries(["Who?"]), np.array([NULL]), 320, title=True)
    assert WORDPIECES.pieces(pair.ids_T.tolist()) == ["[CLS]", "who", "?", "[SEP]", "[SEP]"]


@settings(max_examples=examples(50))
@given(texts=st.lists(st.sampled_from(QUESTIONS), min_size=1, max_size=5))
def test_queries(corpus: Corpus, texts: list[str]) -> None:
    assert_same(corpus.joiner.queries(queries(texts)), join_query(WORDPIECES, texts, 64))


@settings(max_examples=examples(100))
@given(rows=ROWS, limit=LIMITS, title=st.booleans(), data=st.data())
def test_pairs(corpus: Corpus, rows: list[int], limit: int, title: bool, data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.sampled_from(QUESTIONS), min_size=len(rows), max_size=len(rows)))
    joined = corpus.pairs(texts, rows, limit, title=title)
    packed, first_P, length_P = corpus.joiner.readings(queries(texts), np.array(rows), limit, title=title)
    assert_same(packed, joined)
    assert_same(corpus.joiner.pairs(queries(texts), np.array(rows), limit, title=title), joined)
    # where the bodies lie
    starts = packed.starts()
    assert first_P.tolist() == [start + one.body_start for start, one in zip(starts, joined, strict=True)]
    assert length_P.tolist() == [one.body_stop - one.body_start for one in joined]


@settings(max_examples=examples(100))
@given(rows=st.lists(st.integers(0, len(TEXTS) - 1), min_size=1, max_size=4), limit=LIMITS, data=st.data())
def test_blocks_without_a_part(corpus: Corpus, rows: list[int], limit: int, data: st.DataObject) -> None:
    bodies = [corpus.body_encodings[row].ids for row in rows]
    firsts = [data.draw(st.integers(0, len(body))) for body in bodies]
    stops = [data.draw(st.integers(first, len(body))) for first, body in zip(firsts, bodies, strict=True)]
    packed = corpus.joiner.blocks_without(np.array(rows), np.array(firsts), np.array(stops), limit)
    at = packed.starts()
    for number, (row, first, stop) in enumerate(zip(rows, firsts, stops, strict=True)):
        title = corpus.title_encodings[row].ids[:64]
        body = [*bodies[number][:first], *bodies[number][stop:]][: max(0, limit - len(title) - 3)]
        own = slice(at[number], at[number] + packed.lengths[number])
        wanted = [WORDPIECES.cls_id, *title, WORDPIECES.sep_id, *body, WORDPIECES.sep_id]
        assert packed.ids_T[own].tolist() == wanted
        assert packed.segments_T[own].tolist() == [0] * (len(title) + 2) + [1] * (len(body) + 1)
        assert packed.positions_T[own].tolist() == list(range(len(wanted)))


def test_removing_nothing_gives_the_whole_block(corpus: Corpus) -> None:
    rows, none = np.arange(len(TEXTS)), np.zeros(len(TEXTS), np.int64)
    assert_same(corpus.joiner.blocks_without(rows, none, none, 128), corpus.blocks(rows.tolist(), 128))


# ── Pieces ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pieces_are_repeated_and_truncated() -> None:
    pieces = Pieces.of([[5, 6, 7], [], [8]], CPU, segment=1)
    assert concatenated([pieces.repeated(2)]).ids_T.tolist() == [5, 6, 7, 5, 6, 7, 8, 8]
    assert concatenated([pieces.cut(2)]).lengths == (2, 0, 1)
    assert concatenated([pieces.cut(np.array([1, 4, -3]))]).lengths == (1, 0, 0)  # no room is no room
    assert concatenated([pieces.cut(1)]).segments_T.tolist() == [1, 1]


SEQUENCES = st.lists(st.lists(st.integers(1, 99), max_size=5), min_size=3, max_size=3)


@settings(max_examples=examples(100))
@given(parts=st.lists(SEQUENCES, min_size=1, max_size=4))
def test_pieces_are_concatenated(parts: list[list[list[int]]]) -> None:
    packed = concatenated([Pieces.of(part, CPU, segment=number) for number, part in enumerate(parts)])
    rows = [[(i, number) for number, part in enumerate(parts) for i in part[row]] for row in range(3)]
    assert packed.ids_T.tolist() == [i for row in rows for i, _ in row]
    assert packed.segments_T.tolist() == [number for row in rows for _, number in row]
    assert packed.positions_T.tolist() == [place for row in rows for place in range(len(row))]
    assert packed.lengths == tuple(map(len, rows))
