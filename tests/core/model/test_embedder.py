"""Embed(·) against a computation by hand, its poolings, and the projection of the warm start."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realm_core.model.config import Pooling
from realm_core.model.embedder import Embedder, principal_projection
from realm_core.model.packed import Packed
from tests.core.model.small import padded_hidden, small_bert

IDS = [[3, 9, 27, 5], [8, 2], [7, 7, 1, 30, 12, 44, 6]]
SEGMENTS = [[0, 0, 1, 1], [0, 0], [0, 0, 0, 1, 1, 1, 1]]


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_vectors_are_dense_and_layernorm_of_the_pooled_states(pooling: Pooling) -> None:
    torch.manual_seed(4)
    embedder = Embedder(small_bert(), 8, pooling).eval()
    with torch.no_grad():
        embedder.norm.weight.uniform_(0.5, 2.0)
        embedder.norm.bias.uniform_(-1.0, 1.0)
    with torch.no_grad():
        vectors = embedder(Packed.of(IDS, SEGMENTS))
    for vector, hidden in zip(vectors, padded_hidden(IDS, SEGMENTS), strict=True):
        pooled = hidden[0] if pooling == "cls" else sum(hidden) / len(hidden)
        projected = embedder.dense.weight @ pooled + embedder.dense.bias
        centred = projected - projected.mean()
        wanted = centred / centred.square().mean().sqrt() * embedder.norm.weight + embedder.norm.bias
        torch.testing.assert_close(vector, wanted, rtol=1e-3, atol=1e-3)
    assert vectors.dtype == torch.float32


@settings(max_examples=20)
@given(dimension=st.integers(1, 12), seed=st.integers(0, 1000))
def test_the_projection_preserves_inner_products_of_low_rank_states(dimension: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    directions = torch.linalg.qr(torch.randn(20, dimension, generator=draw)).Q
    states = torch.randn(60, dimension, generator=draw) @ directions.T
    projection = principal_projection(states, dimension)
    assert projection.shape == (dimension, 20)
    projected = states @ projection.T
    torch.testing.assert_close(projected @ projected.T, states @ states.T, rtol=1e-3, atol=1e-3)


def test_the_projection_is_optimal() -> None:
    draw = torch.Generator().manual_seed(5)
    states = torch.nn.functional.normalize(torch.randn(200, 20, generator=draw) * torch.linspace(3, 0.1, 20), dim=1)
    projection = principal_projection(states, 5)
    torch.testing.assert_close(projection @ projection.T, torch.eye(5), rtol=0, atol=1e-5)
    kept = (states @ projection.T).square().sum()
    best = torch.linalg.svdvals(states)[:5].square().sum()
    assert kept.item() == pytest.approx(best.item(), rel=1e-5)
