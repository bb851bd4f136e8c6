"""The encoder for inference equals transformers' BERT within the precision of bfloat16."""

from __future__ import annotations

import copy
import sys
import threading
import time
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from realm_core.model import inference
from realm_core.model.base import base_bert
from realm_core.model.bert import Bert
from realm_core.model.config import ModelConfig
from realm_core.model.device import fast_dtype
from realm_core.model.inference import InferenceEncoder, _rounded
from realm_core.model.packed import Packed, encode

# Where the processor has no instructions for bfloat16, the encoder is used in int8 only.
on_bfloat16 = pytest.mark.skipif(
    fast_dtype(torch.device("cpu")) != torch.bfloat16, reason="this machine does not multiply bfloat16 in hardware"
)


@pytest.fixture(scope="module")
def exact() -> Bert:
    """The base in float32."""
    return base_bert(ModelConfig.base)


@pytest.fixture(scope="module")
def low(exact: Bert) -> Bert:
    return copy.deepcopy(exact).to(dtype=torch.bfloat16)


def _batch(lengths: list[int]) -> Packed:
    draw = torch.Generator().manual_seed(len(lengths))
    ids = [torch.randint(1000, 20000, (length,), generator=draw).tolist() for length in lengths]
    return Packed.of(ids, [[0] * (length // 2) + [1] * (length - length // 2) for length in lengths])


LENGTHS = ([2], [31, 32, 33], [150, 7, 64, 288])


@on_bfloat16
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_its_error_is_no_larger_than_that_of_plain_bfloat16(
    lengths: list[int], fused: bool, exact: Bert, low: Bert, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With both kinds of attention, regardless of this machine."""
    monkeypatch.setattr(inference, "_fused_attention_is_faster", lambda: fused)
    assert InferenceEncoder.supports(low)
    batch = _batch(lengths)
    with torch.inference_mode():
        wanted_TW = encode(exact, batch)
        plain_TW, fast_TW = encode(low, batch).float(), InferenceEncoder(low)(batch).float()
    plain_error = (plain_TW - wanted_TW).abs().mean()
    assert (fast_TW - wanted_TW).abs().mean() <= 1.3 * plain_error
    assert (fast_TW - wanted_TW).abs().max() < 0.3


def test_unsupported_models_are_detected() -> None:
    bert = base_bert(ModelConfig.base)
    assert not InferenceEncoder.supports(bert)  # float32
    assert InferenceEncoder.supports(bert, int8=True) == torch.cpu._is_avx2_supported()
    low = copy.deepcopy(bert).to(dtype=torch.bfloat16)
    low.config = replace(low.config, hidden_act="relu")
    assert not InferenceEncoder.supports(low)


on_avx2 = pytest.mark.skipif(not torch.cpu._is_avx2_supported(), reason="this machine does not multiply int8 fast")
in_all_precisions = pytest.mark.parametrize(
    ("dtype", "int8"),
    [
        pytest.param(torch.bfloat16, False, marks=on_bfloat16),
        pytest.param(torch.bfloat16, True, marks=[on_bfloat16, on_avx2]),
        pytest.param(torch.float32, True, marks=on_avx2),
    ],
)
sums = pytest.mark.parametrize(
    "in_16_bits",
    [
        True,
        pytest.param(
            False,
            marks=pytest.mark.skipif(not torch.cpu._is_vnni_supported(), reason="this machine has no VNNI"),
        ),
    ],
)


@on_avx2
@sums
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=on_bfloat16)])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_products_in_int8_stay_close_to_float32(
    lengths: list[int], dtype: torch.dtype, in_16_bits: bool, exact: Bert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "_adds_in_16_bits", lambda: in_16_bits)
    fast = InferenceEncoder(copy.deepcopy(exact).to(dtype=dtype), int8=True)
    assert fast.product == "int8"
    batch = _batch(lengths)
    with torch.inference_mode():
        wanted_TW, fast_TW = encode(exact, batch), fast(batch)
    assert fast_TW.dtype == dtype
    cosine_T = torch.nn.functional.cosine_similarity(fast_TW.float(), wanted_TW)
    assert cosine_T.min() > 0.98
    assert cosine_T.mean() > 0.99


@on_avx2
def test_outlier_channels_that_are_not_treated_cost_precision(exact: Bert, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = _batch([150, 7, 64, 288])
    with torch.inference_mode():
        wanted_TW = encode(exact, batch)
        error = (InferenceEncoder(exact, int8=True)(batch) - wanted_TW).square().mean()
        monkeypatch.setattr(inference, "_SMOOTHED", 1)
        monkeypatch.setattr(inference, "_SPLIT", 1)
        untreated_error = (InferenceEncoder(exact, int8=True)(batch) - wanted_TW).square().mean()
    assert error < 0.8 * untreated_error


@on_avx2
@pytest.mark.parametrize("inputs", [15, 16, 768])
@pytest.mark.parametrize("rows", [8, 600])
def test_sums_of_the_largest_codes_do_not_overflow(rows: int, inputs: int) -> None:
    """A processor without VNNI adds the products of two channels in 16 bits, which 2 · 254 · 127 exceeds."""
    draw = torch.Generator().manual_seed(inputs)
    weight_NK = torch.rand(64, inputs, generator=draw) ** 4 + 0.01  # a few are much larger than others
    weight_NK[:32] = 1.0
    rows_TK = torch.ones(rows, inputs)
    product = inference._int8_smoothed(weight_NK, torch.zeros(64), torch.ones(inputs))
    with torch.inference_mode():
        sums_TN = inference._multiply(rows_TK, product, False)
    assert torch.allclose(sums_TN, (rows_TK @ weight_NK.T), rtol=0.02, atol=0.02)


@on_bfloat16
def test_attention_ignores_rows_of_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "_fused_attention_is_faster", lambda: True)
    encoder = InferenceEncoder(base_bert(ModelConfig.base).to(dtype=torch.bfloat16))
    own, first, second = (ids_T.tolist() for ids_T in _batch([37, 38, 38]).ids_T.split([37, 38, 38]))
    with torch.inference_mode():
        among_first, among_second = (
            encoder(Packed.of([neighbours[:13], own, neighbours[13:]]))[13:50] for neighbours in (first, second)
        )
    assert torch.equal(among_first, among_second)


@given(st.lists(st.integers(1, 512), min_size=1, max_size=20))
def test_a_window_contains_its_sequence_and_masks_the_rest(lengths: list[int]) -> None:
    rows, start = _rounded(sum(lengths)), 0
    for window, length in zip(inference._windows(tuple(lengths), rows, torch.bfloat16), lengths, strict=True):
        width = window.end - window.start
        assert 0 <= window.start <= start and start + length <= window.end <= rows
        assert width in (length, rows) or width % 16 == 0
        seen_K = torch.zeros(width) if window.mask_111K is None else window.mask_111K.flatten()
        own = range(start - window.start, start - window.start + length)
        assert (window.own_start, window.own_end) == (own.start, own.stop)
        assert [place for place, value in enumerate(seen_K.tolist()) if value == 0.0] == list(own)
        start += length


@given(st.integers(1, 1 << 17))
def test_little_padding_is_computed(count: int) -> None:
    rows = _rounded(count)
    assert count <= rows < count + max(8, count / 16 + 1)
    assert _rounded(rows) == rows


def test_batches_of_all_sizes_have_few_shapes() -> None:
    """oneDNN caches a compiled kernel per shape."""
    assert len({_rounded(count) for count in range(1, 4097)}) <= 112


@in_all_precisions
def test_padding_rows_change_nothing(dtype: torch.dtype, int8: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = InferenceEncoder(base_bert(ModelConfig.base).to(dtype=dtype), int8=int8)
    batch, worked_on = _batch([150, 7, 64, 36]), list[torch.Tensor]()

    def through(*given: object) -> torch.Tensor:
        worked_on.append(inference._layers(*given).float())
        return worked_on[-1]

    monkeypatch.setattr(inference, "_run_layers", through)
    with torch.inference_mode():
        rounded_TW = encoder(batch).float()
        monkeypatch.setattr("realm_core.model.inference._rounded", lambda count: count)
        exact_TW = encoder(batch).float()
    assert len(rounded_TW) == len(exact_TW) == 257
    behind_RW = worked_on[0][257:]  # they have become what the first row has
    assert len(behind_RW) == 15 and (behind_RW - rounded_TW[0]).abs().mean() < 1e-3
    assert (rounded_TW - exact_TW).abs().mean() < 1e-3


@in_all_precisions
def test_a_sequence_is_computed_as_if_it_were_alone(dtype: torch.dtype, int8: bool) -> None:
    """One scale for all rows would make an answer depend on the rest of its batch, and a vector on its shard."""
    encoder = InferenceEncoder(base_bert(ModelConfig.base).to(dtype=dtype), int8=int8)
    lengths = [150, 7, 64]
    batch = _batch(lengths)
    ids, segments = (values_T.split(lengths) for values_T in (batch.ids_T, batch.segments_T))
    with torch.inference_mode():
        for own, first, beside_TW in zip(ids, segments, encoder(batch).float().split(lengths), strict=True):
            alone_TW = encoder(Packed.of([own.tolist()], [first.tolist()])).float()
            assert (alone_TW - beside_TW).abs().max() < 1e-4


@in_all_precisions
def test_compiled_or_not_it_computes_the_same(dtype: torch.dtype, int8: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, batch = InferenceEncoder(base_bert(ModelConfig.base).to(dtype=dtype), int8=int8), _batch([40, 9])
    with torch.inference_mode():
        compiled_TW = encoder(batch)
        monkeypatch.setattr(inference, "_run_layers", inference._layers)
        assert torch.equal(compiled_TW, encoder(batch))


@on_bfloat16
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this machine's Python is one that torch does not compile for")
def test_the_gil_is_taken_a_few_times_not_per_operation() -> None:
    encoder, batch = InferenceEncoder(base_bert(ModelConfig.base).to(dtype=torch.bfloat16)), _batch([40, 9])
    ends, usual_s = threading.Event(), sys.getswitchinterval()

    def hold_the_lock() -> None:
        while not ends.is_set():
            pass

    with torch.inference_mode():
        encoder(batch)
        other = threading.Thread(target=hold_the_lock)
        sys.setswitchinterval(0.02)  # how long whoever wants the lock waits for it
        try:
            other.start()
            began = time.perf_counter()
            encoder(batch)
            took_s = time.perf_counter() - began
        finally:
            ends.set()
            sys.setswitchinterval(usual_s)
            other.join()
    assert took_s < 100 * 0.02  # operation by operation it would be 350 times and more
