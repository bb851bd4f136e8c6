"""Sequences laid end to end give what transformers computes from the same sequences, padded."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from transformers import BertModel

from realm_core.model.packed import Layout, Packed, _attend_padded, encode
from tests.core.model.small import VOCABULARY, padded_hidden, small_bert

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=8)


def drawn(lengths: list[int], seed: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    """Wordpieces and segments of sequences of these lengths."""
    draw = torch.Generator().manual_seed(seed)
    ids = [torch.randint(1, VOCABULARY, (length,), generator=draw).tolist() for length in lengths]
    return ids, [[0] * (length // 2) + [1] * (length - length // 2) for length in lengths]


@lru_cache(maxsize=1)
def _bert() -> BertModel:
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
@given(LENGTHS)
def test_the_way_for_a_gpu_attends_as_the_way_for_a_cpu(lengths: list[int]) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 1, 2, sum(lengths), 4).unbind()
    layout = Layout(tuple(lengths), query.device)
    context_HTD = _attend_padded(query, key, value, layout, 0.0, 0.7)[0].transpose(0, 1)
    start = 0
    for length in lengths:
        own = slice(start, start + length)
        weights = torch.softmax(query[0, :, own] @ key[0, :, own].transpose(1, 2) * 0.7, dim=-1)
        torch.testing.assert_close(context_HTD[:, own], weights @ value[0, :, own], rtol=1e-4, atol=1e-5)
        start += length
    assert start == context_HTD.shape[1]


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


def test_without_segments_all_are_the_first() -> None:
    ids, _ = drawn([4, 2])
    assert Packed.of(ids).segments_T.tolist() == [0] * 6
    assert Packed.of(ids).positions_T.tolist() == [0, 1, 2, 3, 0, 1]
    assert Packed.of(ids).starts() == [0, 4]


def test_gradients_reach_every_layer_as_in_the_padded_computation() -> None:
    ids, segments = drawn([6])
    packed_bert, padded_bert = small_bert(), small_bert()
    encode(packed_bert, Packed.of(ids, segments)).square().sum().backward()
    padded_bert(input_ids=torch.tensor(ids), token_type_ids=torch.tensor(segments))[0].square().sum().backward()
    for packed, padded in zip(packed_bert.parameters(), padded_bert.parameters(), strict=True):
        assert packed.grad is not None and padded.grad is not None
        assert F.cosine_similarity(packed.grad.flatten(), padded.grad.flatten(), dim=0) > 0.9999 or (
            padded.grad.norm() < 1e-3 and packed.grad.norm() < 1e-3
        )
