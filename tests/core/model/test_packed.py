"""Packed sequences give the same results as padded ones in transformers."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from realm_core.model.attention import Layout, _padded, attend
from realm_core.model.bert import Bert
from realm_core.model.packed import Packed, encode
from tests.core.model.small import VOCABULARY, padded_hidden, small_bert

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=8)


def drawn(lengths: list[int], seed: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    """Wordpieces and segments of sequences of these lengths."""
    draw = torch.Generator().manual_seed(seed)
    ids = [torch.randint(1, VOCABULARY, (length,), generator=draw).tolist() for length in lengths]
    return ids, [[0] * (length // 2) + [1] * (length - length // 2) for length in lengths]


@lru_cache(maxsize=1)
def _bert() -> Bert:
    return small_bert()


def packed_hidden(ids: list[list[int]], segments: list[list[int]]) -> list[Tensor]:
    batch = Packed.of(ids, segments)
    with torch.inference_mode():
        return list(encode(_bert(), batch).split(batch.lengths))


@settings(max_examples=25)
@given(LENGTHS)
def test_hidden_states_equal_the_padded_computation(lengths: list[int]) -> None:
    ids, segments = drawn(lengths)
    for packed, padded in zip(packed_hidden(ids, segments), padded_hidden(ids, segments), strict=True):
        torch.testing.assert_close(packed, padded, rtol=1e-4, atol=1e-4)


@settings(max_examples=25)
@given(LENGTHS, st.booleans())
def test_gpu_and_cpu_attention_are_equal(lengths: list[int], biased: bool) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, sum(lengths), 2, 4).unbind()
    layout = Layout(tuple(lengths), query.device)
    bias_HLL = torch.randn(2, max(lengths), max(lengths)) if biased else None
    context_THD = _padded(query, key, value, layout, bias_HLL, 0.0)
    torch.testing.assert_close(context_THD, attend(query, key, value, layout, bias_HLL), rtol=1e-4, atol=1e-5)
    start = 0
    for length in lengths:
        own = slice(start, start + length)
        query_HLD, key_HLD, value_HLD = (rows_THD[own].transpose(0, 1) for rows_THD in (query, key, value))
        own_bias = 0.0 if bias_HLL is None else bias_HLL[:, :length, :length]
        weights_HLL = torch.softmax(query_HLD @ key_HLD.transpose(1, 2) / 2 + own_bias, dim=-1)  # √D = 2
        context_HLD = context_THD[own].transpose(0, 1)
        torch.testing.assert_close(context_HLD, weights_HLL @ value_HLD, rtol=1e-4, atol=1e-5)
        start += length
    assert start == len(context_THD)


def test_a_sequence_does_not_see_its_neighbours() -> None:
    ids, segments = drawn([5, 9, 3])
    before = packed_hidden(ids, segments)
    ids[1] = ids[1][::-1]
    after = packed_hidden(ids, segments)
    torch.testing.assert_close(before[0], after[0])
    torch.testing.assert_close(before[2], after[2])
    assert not torch.allclose(before[1], after[1])


@pytest.mark.parametrize("changed", ["order", "segments"])
def test_order_and_segments_matter(changed: str) -> None:
    ids, segments = drawn([8])
    other_ids, other_segments = [ids[0][:1] + ids[0][:0:-1]], [[1 - s for s in segments[0]]]
    others = (other_ids, segments) if changed == "order" else (ids, other_segments)
    assert not torch.allclose(packed_hidden(ids, segments)[0][0], packed_hidden(*others)[0][0], atol=1e-3)


def test_segments_default_to_zero() -> None:
    ids, _ = drawn([4, 2])
    assert Packed.of(ids).segments_T.tolist() == [0] * 6
    assert Packed.of(ids).positions_T.tolist() == [0, 1, 2, 3, 0, 1]
    assert Packed.of(ids).starts() == [0, 4]
