"""Span scores against a loop over all spans, and which spans there are."""

from __future__ import annotations

import math
from functools import lru_cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realm_core.model.config import ModelConfig
from realm_core.model.packed import Packed
from realm_core.model.pairs import ReadingPair, collate
from realm_core.model.reader import Reader, by_block
from realm_core.text.wordpieces import Wordpieces
from tests.core.model.small import padded_hidden, small_bert

WIDEST = 4
WORDPIECES = Wordpieces.default()


@lru_cache(maxsize=1)
def reader() -> Reader:
    torch.manual_seed(3)
    made = Reader(small_bert(), hidden=8, max_width=WIDEST).eval()
    with torch.no_grad():
        made.norm.weight.uniform_(0.5, 2.0)
        made.norm.bias.uniform_(-1.0, 1.0)
    return made


def pair(head: int, words: list[int]) -> ReadingPair:
    """`head` wordpieces of question, then a body of words of so many wordpieces each, then the last [SEP]."""
    length = sum(words)
    return ReadingPair(
        ids=[1 + (7 * i + length) % 49 for i in range(head + length + 1)],
        segments=[0] * head + [1] * (length + 1),
        body_start=head,
        offsets=[(i, i + 1) for i in range(length)],
        word_starts=[i == 0 for pieces in words for i in range(pieces)],
        word_ends=[i == pieces - 1 for pieces in words for i in range(pieces)],
        room=list(range(length, 0, -1)),
    )


PAIRS = st.lists(st.builds(pair, st.integers(1, 6), st.lists(st.integers(1, 3), max_size=6)), min_size=1, max_size=4)


def by_hand(scorer: Reader, one: ReadingPair) -> dict[tuple[int, int], float]:
    """Logit of every allowed span: MLP([h_start; h_end]) = Dense(1) of LayerNorm of ReLU of Dense, less [CLS]'s."""
    hidden = padded_hidden([one.ids], [one.segments])[0]
    hidden_size = scorer.norm.normalized_shape[0]
    start_rows, end_rows = scorer.ends.weight[:hidden_size], scorer.ends.weight[hidden_size:]
    over_both_ends = torch.cat([start_rows, end_rows], dim=1)  # one Dense over the concatenation
    bias = scorer.ends.bias[:hidden_size] + scorer.ends.bias[hidden_size:]

    def mlp(start: int, end: int) -> float:
        inner = torch.relu(over_both_ends @ torch.cat([hidden[start], hidden[end]]) + bias)
        centred = inner - inner.mean()
        normal = centred / (centred.square().mean() + 1e-3).sqrt() * scorer.norm.weight + scorer.norm.bias
        return float(scorer.score.weight[0] @ normal + scorer.score.bias[0])

    length = len(one.offsets)
    return {
        (first, last): mlp(one.body_start + first, one.body_start + last) - mlp(0, 0)
        for first in range(length)
        for last in range(first, min(first + WIDEST, length))
        if one.word_starts[first] and one.word_ends[last]
    }


@settings(max_examples=20)
@given(PAIRS)
def test_span_logits_equal_a_loop_over_all_spans(pairs: list[ReadingPair]) -> None:
    scorer = reader()
    packed, bodies = collate(pairs)
    with torch.no_grad():
        logits = scorer(packed, bodies)
        for one, own in zip(pairs, logits.split(bodies.lengths), strict=True):
            wanted = by_hand(scorer, one)
            for first in range(own.shape[0]):
                for width in range(own.shape[1]):
                    expected = wanted.pop((first, first + width), -math.inf)
                    assert own[first, width].item() == pytest.approx(expected, abs=2e-3)
            assert not wanted  # nothing that is allowed has no place


def test_spans_consist_of_whole_words_within_a_block() -> None:
    packed, bodies = collate([pair(2, [2, 1]), pair(3, [1, 1])])
    with torch.no_grad():
        possible = torch.isfinite(reader()(packed, bodies))
    assert possible.tolist() == [
        [False, True, True],  # the first word has two wordpieces
        [False, False, False],
        [True, False, False],  # the second block does not go on where the first one ends
        [True, True, False],
        [True, False, False],
    ]


def test_spans_are_no_longer_than_allowed() -> None:
    packed, bodies = collate([pair(2, [1] * 9)])
    with torch.no_grad():
        logits = reader()(packed, bodies)
    assert logits.shape == (9, WIDEST)


def test_an_empty_body_has_no_spans() -> None:
    packed, bodies = collate([pair(2, []), pair(2, [])])
    with torch.no_grad():
        logits = reader()(packed, bodies)
    assert by_block(logits, bodies.lengths).shape == (2, 0)


def test_values_by_block_are_padded() -> None:
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert by_block(values, (1, 2), fill=0.0).tolist() == [[1, 2, 0, 0], [3, 4, 5, 6]]


# ── Question and block as one sequence ──────────────────────────────────────────────────────────────────────────────


def joined(config: ModelConfig, question: str, title: str, body: str) -> ReadingPair:
    encoded = WORDPIECES.encode([question, title, body])
    return ReadingPair.of(WORDPIECES, config, *encoded, body)


def test_no_span_crosses_a_sentence_boundary() -> None:
    body = "It is Baku. Baku lies on\nthe sea of Dr. Lee there"
    own = joined(ModelConfig(), "which city", "Azerbaijan", body)
    end_of = [own.offsets[place + room - 1][1] for place, room in enumerate(own.room)]
    assert list(dict.fromkeys(end_of)) == [body.index(".") + 1, body.index("\n"), len(body)]


@pytest.mark.parametrize("with_title", [True, False])
def test_a_pair_is_question_title_body(with_title: bool) -> None:
    made = joined(ModelConfig(reader_title=with_title), "Who?", "Mars", "Phobos orbits it.")
    title = ["mars", "[SEP]"] if with_title else []
    assert WORDPIECES.pieces(made.ids) == [
        *("[CLS]", "who", "?", "[SEP]", *title, "ph", "##ob", "##os", "orbits", "it", ".", "[SEP]"),
    ]
    assert made.segments == [0] * 4 + [1] * (7 + len(title))
    assert made.ids[made.body_start] == WORDPIECES.encode(["ph"])[0].ids[0]
    assert made.offsets == [(0, 2), (2, 4), (4, 6), (7, 13), (14, 16), (16, 17)]
    assert made.word_starts == [True, False, False, True, True, True]
    assert made.word_ends == [False, False, True, True, True, True]


def test_the_body_of_a_long_pair_is_truncated() -> None:
    config = ModelConfig(reader_wordpieces=40, query_wordpieces=10)
    made = joined(config, "why " * 100, "Mars", "word " * 100)
    assert len(made.ids) == 40 and made.ids[-1] == WORDPIECES.sep_id
    assert made.ids.count(WORDPIECES.encode(["why"])[0].ids[0]) == 8  # [CLS] and [SEP] count
    assert len(made.offsets) == len(made.word_starts) == len(made.word_ends) == 40 - made.body_start - 1
    assert made.offsets[-1] == (27 * 5 - 5, 27 * 5 - 1)


def test_pairs_are_packed() -> None:
    packed, bodies = collate([pair(2, [1, 1]), pair(4, [1])])
    assert packed.lengths == (5, 6)
    assert bodies.positions_N.tolist() == [2, 3, 5 + 4]
    assert bodies.room_N.tolist() == [2, 1, 1]
    assert bodies.lengths == (2, 1)
    assert isinstance(packed, Packed)
