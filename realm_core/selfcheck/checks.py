"""The checks: each compares a device's results with the float64 reference, and limits the largest error.

An error is ‖computed − reference‖ of a row (a vector, the words of a mask, the spans of a pair) relative to
‖reference − its mean‖, or of a parameter's gradient relative to ‖reference‖; the largest one counts, so one wrong
sequence among many is found.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from realm_core.index.search import ExactSearch
from realm_core.model.attention import flash_serves
from realm_core.model.device import fast_dtype
from realm_core.selfcheck import losses, reference
from realm_core.selfcheck.networks import Networks, Sample

# About five times the errors of a correct CPU with AVX-512; wrong results, unlike inexact ones, differ by more.
_LIMITS = {"float32": 1e-4, "bfloat16": 0.1}
_GRADIENT_LIMITS = {"float32": 1e-4, "bfloat16": 0.25}
_SERVING_LIMITS = {"embedder": 0.25, "reader": 0.5}  # bfloat16, or int8 on machines that compute it
_SEARCH_LIMIT = 1e-4
# A gradient of zero (of the keys' biases, which do not change a softmax) has an error larger than itself.
_LEAST_SHARE = 0.01


@dataclass(frozen=True)
class DeviceCheck:
    """What was compared, how it was computed, and its largest error.

    raised: the message of a kernel that failed; the error is then NaN.
    """

    what: str
    way: str
    error: float
    limit: float
    raised: str = ""

    @property
    def passed(self) -> bool:
        """Whether the error is a number within the limit."""
        return self.error <= self.limit


# (what, way, limit, largest error)
_Comparison = tuple[str, str, float, Callable[[], float]]


def run_checks(networks: Networks, sample: Sample, device: torch.device) -> Iterator[DeviceCheck]:
    """Every check on `device`; networks and sample on the CPU."""
    exact = reference.in_double(networks)
    tested, here = _on(networks, device), sample.to(device)
    with torch.no_grad():
        vectors_CD, words_BKJV = reference.vectors(exact, sample), reference.log_words(exact, sample)
        spans_NM = reference.span_logits(exact, sample)
    gradients = {
        "pre-training": _gradients(exact, reference.pretraining_loss(exact, sample)),
        "fine-tuning": _gradients(exact, reference.finetuning_loss(exact, sample)),
    }
    training = {"pre-training": losses.pretraining_loss, "fine-tuning": losses.finetuning_loss}

    def vectors(using: Networks) -> float:
        return _greatest(losses.vectors(using, here), vectors_CD)

    def words(using: Networks) -> float:
        return _greatest(losses.log_words(using, here), words_BKJV)

    def spans(using: Networks) -> float:
        return _greatest_of_spans(losses.span_logits(using, here), spans_NM, sample.bodies.lengths)

    def gradient(what: str, dtype: torch.dtype) -> float:
        return _greatest_of_gradients(_gradients(tested, training[what](tested, here, dtype)), gradients[what])

    def forward(error: Callable[[Networks], float], dtype: torch.dtype) -> float:
        with torch.no_grad(), losses.autocast(device, dtype):
            return error(tested)

    def serving(part: str, error: Callable[[Networks], float]) -> float:
        fast = copy.deepcopy(networks)
        with torch.inference_mode():
            getattr(fast, part).for_inference(device)
            return error(fast)

    comparisons: list[_Comparison] = []
    for dtype in sorted({torch.float32, fast_dtype(device)}, key=str, reverse=True):
        name = str(dtype).removeprefix("torch.")
        way = f"{name}, {_attention(device, dtype)}"
        comparisons += [
            ("vectors", way, _LIMITS[name], partial(forward, vectors, dtype)),
            ("words at masks", way, _LIMITS[name], partial(forward, words, dtype)),
            ("scores of spans", way, _LIMITS[name], partial(forward, spans, dtype)),
            *(
                (f"gradient of {what}", way, _GRADIENT_LIMITS[name], partial(gradient, what, dtype))
                for what in training
            ),
        ]
    comparisons += [
        ("vectors", "as served", _SERVING_LIMITS["embedder"], partial(serving, "embedder", vectors)),
        ("scores of spans", "as served", _SERVING_LIMITS["reader"], partial(serving, "reader", spans)),
    ]
    for comparison in comparisons:
        yield _compare(*comparison)
    yield from search_checks(device)


def _compare(what: str, way: str, limit: float, error: Callable[[], float]) -> DeviceCheck:
    try:
        return DeviceCheck(what, way, error(), limit)
    except (RuntimeError, ValueError) as raised:  # a kernel that fails is a finding
        return DeviceCheck(what, way, math.nan, limit, str(raised).split("\n")[0])


def _attention(device: torch.device, dtype: torch.dtype) -> str:
    if device.type == "cpu":
        return "one sequence at a time"
    return "flash attention" if flash_serves(dtype) else "padded attention"


def _on(networks: Networks, device: torch.device) -> Networks:
    tested = copy.deepcopy(networks)
    for part in (tested.embedder, tested.encoder, tested.reader):
        part.to(device)
    return tested


def _gradients(networks: Networks, loss: Tensor) -> list[Tensor]:
    """The gradient of the loss for every parameter; float64 on the CPU, zero for parameters that it does not reach."""
    parameters = [
        parameter
        for part in (networks.embedder, networks.encoder, networks.reader)
        for parameter in part.parameters()
        if parameter.requires_grad
    ]
    found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    return [gradient.cpu().double() for gradient in found]


# ---- errors


def _greatest(computed: Tensor, expected: Tensor) -> float:
    """The largest over the rows, which are all axes but the last."""
    rows = zip(computed.cpu().double().flatten(0, -2), expected.flatten(0, -2), strict=True)
    return _largest([_of_row(row, right) for row, right in rows])


def _greatest_of_spans(computed_NM: Tensor, expected_NM: Tensor, lengths: tuple[int, ...]) -> float:
    """The largest over the pairs; infinite if the scored spans are not the existing ones."""
    computed_NM, some_NM = computed_NM.cpu().double(), torch.isfinite(expected_NM)
    if not torch.equal(torch.isfinite(computed_NM), some_NM):
        return math.inf
    parts = zip(computed_NM.split(lengths), expected_NM.split(lengths), some_NM.split(lengths), strict=True)
    return _largest([_of_row(row[some], right[some]) for row, right, some in parts])


def _greatest_of_gradients(computed: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest over the parameters."""
    floor = _LEAST_SHARE * max(right.norm().item() for right in expected)
    pairs = zip(computed, expected, strict=True)
    return _largest([(one - right).norm().item() / max(right.norm().item(), floor) for one, right in pairs])


def _of_row(computed: Tensor, expected: Tensor) -> float:
    error: float = (computed - expected).norm().item() / (expected - expected.mean()).norm().item()
    return error


def _largest(errors: Sequence[float]) -> float:
    """The largest; NaN if one of them is."""
    return math.nan if any(map(math.isnan, errors)) else max(errors)


# ---- search


def search_checks(
    device: torch.device, *, blocks: int = 300_000, queries: int = 16, k: int = 50, shards: int = 7
) -> Iterator[DeviceCheck]:
    """Exact search: the best rows and their scores, and the same with the index in shards.

    Entries are small integers, so every sum is exact, many scores are equal, and the right rows are certain. For
    vectors of arbitrary numbers only scores are compared, also those of candidates from products in float16, as
    on a GPU whose memory is not to hold the index in float32.
    """
    draw = torch.Generator().manual_seed(0)
    whole_ND = torch.randint(-3, 4, (blocks, 64), generator=draw).float()
    query_BD = torch.randint(-3, 4, (queries, 64), generator=draw).float()
    rows_BK, scores_BK = _best(query_BD, whole_ND, k)
    found_BK, own_BK = ExactSearch(whole_ND, device).search(query_BD.to(device), k)
    wrong = (found_BK != rows_BK).sum().item() + (own_BK.double() != scores_BK).sum().item()
    yield DeviceCheck("rows found by search", "whole numbers", float(wrong), 0.0)
    found_BK, own_BK = _search_in_shards(whole_ND, query_BD, k, shards, device)
    wrong = (found_BK != rows_BK).sum().item() + (own_BK.double() != scores_BK).sum().item()
    yield DeviceCheck("rows found by search", f"whole numbers, {shards} shards", float(wrong), 0.0)
    any_ND = torch.randn(blocks, 64, generator=draw)
    query_BD = torch.randn(queries, 64, generator=draw)
    own_BK = ExactSearch(any_ND, device).search(query_BD.to(device), k)[1]
    yield DeviceCheck("scores of search", "float32", _greatest(own_BK, _best(query_BD, any_ND, k)[1]), _SEARCH_LIMIT)
    half_ND = any_ND.half()
    own_BK = ExactSearch(half_ND, device, dtype=torch.float16).search(query_BD.to(device), k)[1]
    error = _greatest(own_BK, _best(query_BD, half_ND, k)[1])
    yield DeviceCheck("scores of search", "candidates from float16", error, _SEARCH_LIMIT)


def _best(query_BD: Tensor, vectors_ND: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Rows and scores in float64; of equal scores the lower row first."""
    scores_BN = query_BD.double() @ vectors_ND.double().T
    scores_BN, rows_BN = scores_BN.sort(dim=1, descending=True, stable=True)
    return rows_BN[:, :k], scores_BN[:, :k]


def _search_in_shards(
    vectors_ND: Tensor, query_BD: Tensor, k: int, shards: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The best results merged from all shards, as with several machines."""
    rows, scores, start = [], [], 0
    for shard_ND in vectors_ND.tensor_split(shards):
        found_BK, own_BK = ExactSearch(shard_ND, device).search(query_BD.to(device), k)
        rows.append(found_BK + start)
        scores.append(own_BK)
        start += len(shard_ND)
    rows_BS, scores_BS = torch.cat(rows, dim=1), torch.cat(scores, dim=1)
    best_BK = scores_BS.sort(dim=1, descending=True, stable=True).indices[:, :k]
    return rows_BS.gather(1, best_BK), scores_BS.gather(1, best_BK)
