"""The encoder for inference gives what transformers' BERT gives, as exactly as bfloat16 allows."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from realm_core.model.base import base_bert
from realm_core.model.config import ModelConfig
from realm_core.model.device import fast_dtype
from realm_core.model.inference import InferenceEncoder, _rounded
from realm_core.model.packed import Packed, encode


def _batch(lengths: list[int]) -> Packed:
    draw = torch.Generator().manual_seed(len(lengths))
    ids = [torch.randint(1000, 20000, (length,), generator=draw).tolist() for length in lengths]
    return Packed.of(ids, [[0] * (length // 2) + [1] * (length - length // 2) for length in lengths])


LENGTHS = ([2], [14], [31, 32, 33], [150, 7, 64, 288])


@pytest.mark.parametrize("lengths", LENGTHS)
def test_it_is_no_further_from_float32_than_the_plain_way(lengths: list[int]) -> None:
    if fast_dtype(torch.device("cpu")) != torch.bfloat16:
        return  # this processor does not multiply bfloat16, and the encoder is never used on it
    exact = base_bert(ModelConfig.base)
    low = copy.deepcopy(exact).to(dtype=torch.bfloat16)
    assert InferenceEncoder.serves(low)
    batch = _batch(lengths)
    with torch.inference_mode():
        wanted_TW = encode(exact, batch)
        plain_TW, fast_TW = encode(low, batch).float(), InferenceEncoder(low)(batch).float()
    plain_error = (plain_TW - wanted_TW).abs().mean()
    assert (fast_TW - wanted_TW).abs().mean() <= 1.3 * plain_error
    assert (fast_TW - wanted_TW).abs().max() < 0.3


def test_it_does_not_serve_what_it_was_not_written_for() -> None:
    bert = base_bert(ModelConfig.base)
    assert not InferenceEncoder.serves(bert)  # float32
    low = copy.deepcopy(bert).to(dtype=torch.bfloat16)
    low.config = replace(low.config, hidden_act="relu")
    assert not InferenceEncoder.serves(low)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_products_in_int8_stay_close_to_float32(lengths: list[int]) -> None:
    if fast_dtype(torch.device("cpu")) != torch.bfloat16:
        return
    exact = base_bert(ModelConfig.base)
    fast = InferenceEncoder(copy.deepcopy(exact).to(dtype=torch.bfloat16), int8=True)
    assert fast.product == ("int8" if torch.cpu._is_vnni_supported() else "bfloat16")
    batch = _batch(lengths)
    with torch.inference_mode():
        wanted_TW, fast_TW = encode(exact, batch), fast(batch).float()
    cosine_T = torch.nn.functional.cosine_similarity(fast_TW, wanted_TW)
    assert cosine_T.min() > 0.98
    assert cosine_T.mean() > 0.99


@given(st.integers(1, 1 << 17))
def test_few_rows_are_worked_on_for_nothing(count: int) -> None:
    rows = _rounded(count)
    assert count <= rows < count + max(8, count / 16 + 1)
    assert _rounded(rows) == rows


def test_batches_of_all_sizes_come_in_few() -> None:
    """Of each of which oneDNN keeps what it has compiled."""
    assert len({_rounded(count) for count in range(1, 4097)}) <= 112


@pytest.mark.parametrize("int8", [False, True])
def test_rows_that_round_a_batch_up_change_nothing(int8: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the scale of a product, which is taken from all of its rows."""
    if fast_dtype(torch.device("cpu")) != torch.bfloat16:
        return
    encoder = InferenceEncoder(base_bert(ModelConfig.base).to(dtype=torch.bfloat16), int8=int8)
    batch, worked_on = _batch([150, 7, 64, 36]), list[torch.Tensor]()
    encoder._layers[-1].output_norm.register_forward_hook(lambda _module, _rows, made: worked_on.append(made.float()))
    with torch.inference_mode():
        rounded_TW = encoder(batch).float()
        monkeypatch.setattr("realm_core.model.inference._rounded", lambda count: count)
        exact_TW = encoder(batch).float()
    assert len(rounded_TW) == len(exact_TW) == 257
    behind_RW = worked_on[0][257:]  # they have become what the first row has
    assert len(behind_RW) == 15 and (behind_RW - rounded_TW[0]).abs().mean() < 1e-3
    assert (rounded_TW - exact_TW).abs().mean() < 1e-3
