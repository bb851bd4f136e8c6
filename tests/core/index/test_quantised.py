"""Vectors in six bits: as near as a scale allows, and the same ones however often they are quantised."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from realm_core.index.quantised import dequantise, quantise


def drawn(rows: int, dimension: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, dimension, generator=torch.Generator().manual_seed(seed)).half()


@given(rows=st.integers(0, 9), dimension=st.integers(1, 99), seed=st.integers(0, 99), size=st.sampled_from([0.1, 9]))
def test_a_number_moves_by_half_a_scale_at_most(rows: int, dimension: int, seed: int, size: float) -> None:
    vectors = drawn(rows, dimension, seed) * size
    tensors = quantise(vectors)
    assert tensors["packed"].shape == (rows, -(-dimension // 4) * 3) and tensors["scales"].shape == (rows, 1)
    found = dequantise(**tensors, dimension=dimension)
    assert found.shape == vectors.shape and found.dtype == torch.float16
    # Half a scale, and what float16 cannot tell of the scale, 31 times, and of the number.
    allowed = vectors.float().abs().amax(1, keepdim=True) * (1 / 62 + 2**-10) + 2**-17
    assert ((found.float() - vectors.float()).abs() <= allowed).all()


@given(seed=st.integers(0, 99))
def test_quantising_again_changes_nothing(seed: int) -> None:
    once = quantise(drawn(5, 32, seed))
    again = quantise(dequantise(**once, dimension=32))
    assert torch.equal(once["packed"], again["packed"]) and torch.equal(once["scales"], again["scales"])


def test_every_multiple_has_its_own_number_and_a_row_of_zeros_stays_one() -> None:
    multiples = torch.tensor([[*range(-31, 32)], [0] * 63]).half()
    assert torch.equal(dequantise(**quantise(multiples), dimension=63), multiples)


def test_a_score_hardly_differs() -> None:
    blocks, questions = (torch.nn.functional.normalize(drawn(n, 256, n).float()) for n in (500, 50))
    differences = questions @ blocks.T - questions @ dequantise(**quantise(blocks), dimension=256).float().T
    assert differences.std() < 0.002
