"""The checks: each compares what a device computes with the float64 reference, and has a limit for the greatest error.

An error is ‖computed − reference‖ of a row (a vector, the words of a mask, the spans of a pair) in units of
‖reference − its mean‖, or of a parameter's gradient in units of ‖reference‖; the greatest of all counts. So a single
sequence that came out wrong cannot hide among many.
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
from realm_core.selfcheck.parts import Parts, Sample

# About five times what a sound CPU with AVX-512 shows; what is wrong, not inexact, differs by more than that.
_LIMITS = {"float32": 1e-4, "bfloat16": 0.1}
_GRADIENT_LIMITS = {"float32": 1e-4, "bfloat16": 0.25}
_SERVING_LIMITS = {"embedder": 0.1, "reader": 0.5}  # bfloat16; int8, where the machine multiplies that
_SEARCH_LIMIT = 1e-4
# A gradient that is nothing (of the keys' biases, which softmax does not feel) has an error of more than its size.
_LEAST_SHARE = 0.01


@dataclass(frozen=True)
class Check:
    """What was compared, computed in which way, with which greatest error.

    raised: what a kernel said that did not compute at all; the error is then not a number.
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


# (what, way, limit, greatest error)
_Comparison = tuple[str, str, float, Callable[[], float]]


def run_checks(parts: Parts, sample: Sample, device: torch.device) -> Iterator[Check]:
    """Every check on `device`; parts and sample on the CPU."""
    exact = reference.in_double(parts)
    own, here = _on(parts, device), sample.to(device)
    with torch.no_grad():
        vectors_CD, words_BKJV = reference.vectors(exact, sample), reference.log_words(exact, sample)
        spans_NM = reference.span_logits(exact, sample)
    gradients = {
        "pre-training": _gradients(exact, reference.pretraining_loss(exact, sample)),
        "fine-tuning": _gradients(exact, reference.finetuning_loss(exact, sample)),
    }
    training = {"pre-training": losses.pretraining_loss, "fine-tuning": losses.finetuning_loss}

    def vectors(using: Parts) -> float:
        return _greatest(losses.vectors(using, here), vectors_CD)

    def words(using: Parts) -> float:
        return _greatest(losses.log_words(using, here), words_BKJV)

    def spans(using: Parts) -> float:
        return _greatest_of_spans(losses.span_logits(using, here), spans_NM, sample.bodies.lengths)

    def gradient(what: str, dtype: torch.dtype) -> float:
        return _greatest_of_gradients(_gradients(own, training[what](own, here, dtype)), gradients[what])

    def forward(error: Callable[[Parts], float], dtype: torch.dtype) -> float:
        with torch.no_grad(), losses.autocast(device, dtype):
            return error(own)

    def serving(part: str, error: Callable[[Parts], float]) -> float:
        fast = copy.deepcopy(parts)
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


def _compare(what: str, way: str, limit: float, error: Callable[[], float]) -> Check:
    try:
        return Check(what, way, error(), limit)
    except (RuntimeError, ValueError) as raised:  # a kernel that cannot compute is what is looked for
        return Check(what, way, math.nan, limit, str(raised).split("\n")[0])


def _attention(device: torch.device, dtype: torch.dtype) -> str:
    """Which kernel attends."""
    if device.type == "cpu":
        return "one sequence at a time"
    return "flash attention" if flash_serves(dtype) else "padded attention"


def _on(parts: Parts, device: torch.device) -> Parts:
    own = copy.deepcopy(parts)
    for part in (own.embedder, own.encoder, own.reader):
        part.to(device)
    return own


def _gradients(parts: Parts, loss: Tensor) -> list[Tensor]:
    """Of the loss in every parameter that it reaches; float64 on the CPU, zero where it does not reach."""
    parameters = [
        parameter
        for part in (parts.embedder, parts.encoder, parts.reader)
        for parameter in part.parameters()
        if parameter.requires_grad
    ]
    found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    return [gradient.cpu().double() for gradient in found]


# ── Errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _greatest(computed: Tensor, expected: Tensor) -> float:
    """Over the rows, which are everything but the last axis."""
    rows = zip(computed.cpu().double().flatten(0, -2), expected.flatten(0, -2), strict=True)
    return _largest([_of_row(row, right) for row, right in rows])


def _greatest_of_spans(computed_NM: Tensor, expected_NM: Tensor, lengths: tuple[int, ...]) -> float:
    """Over the pairs; infinite where other spans were scored than there are."""
    computed_NM, some_NM = computed_NM.cpu().double(), torch.isfinite(expected_NM)
    if not torch.equal(torch.isfinite(computed_NM), some_NM):
        return math.inf
    parts = zip(computed_NM.split(lengths), expected_NM.split(lengths), some_NM.split(lengths), strict=True)
    return _largest([_of_row(own[some], right[some]) for own, right, some in parts])


def _greatest_of_gradients(computed: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Over the parameters."""
    floor = _LEAST_SHARE * max(right.norm().item() for right in expected)
    pairs = zip(computed, expected, strict=True)
    return _largest([(own - right).norm().item() / max(right.norm().item(), floor) for own, right in pairs])


def _of_row(computed: Tensor, expected: Tensor) -> float:
    error: float = (computed - expected).norm().item() / (expected - expected.mean()).norm().item()
    return error


def _largest(errors: Sequence[float]) -> float:
    """The greatest; not a number where one of them is not."""
    return math.nan if any(map(math.isnan, errors)) else max(errors)


# ── Search ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def search_checks(
    device: torch.device, *, blocks: int = 300_000, queries: int = 16, k: int = 50, shards: int = 7
) -> Iterator[Check]:
    """Exact search: the best rows and their scores, and the same found shard by shard.

    Entries are small whole numbers, so that every sum is exact, many scores are equal, and the rows that must be found
    are certain. Of vectors of any numbers, scores are compared.
    """
    draw = torch.Generator().manual_seed(0)
    whole_ND = torch.randint(-3, 4, (blocks, 64), generator=draw).float()
    query_BD = torch.randint(-3, 4, (queries, 64), generator=draw).float()
    rows_BK, scores_BK = _best(query_BD, whole_ND, k)
    found_BK, own_BK = ExactSearch(whole_ND, device).search(query_BD.to(device), k)
    wrong = (found_BK != rows_BK).sum().item() + (own_BK.double() != scores_BK).sum().item()
    yield Check("rows found by search", "whole numbers", float(wrong), 0.0)
    found_BK, own_BK = _search_in_shards(whole_ND, query_BD, k, shards, device)
    wrong = (found_BK != rows_BK).sum().item() + (own_BK.double() != scores_BK).sum().item()
    yield Check("rows found by search", f"whole numbers, {shards} shards", float(wrong), 0.0)
    any_ND = torch.randn(blocks, 64, generator=draw)
    query_BD = torch.randn(queries, 64, generator=draw)
    own_BK = ExactSearch(any_ND, device).search(query_BD.to(device), k)[1]
    yield Check("scores of search", "float32", _greatest(own_BK, _best(query_BD, any_ND, k)[1]), _SEARCH_LIMIT)


def _best(query_BD: Tensor, vectors_ND: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Rows and scores in float64; of equal scores the lower row first."""
    scores_BN = query_BD.double() @ vectors_ND.double().T
    scores_BN, rows_BN = scores_BN.sort(dim=1, descending=True, stable=True)
    return rows_BN[:, :k], scores_BN[:, :k]


def _search_in_shards(
    vectors_ND: Tensor, query_BD: Tensor, k: int, shards: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The best of what was found in each shard, as several machines would have it."""
    rows, scores, start = [], [], 0
    for shard_ND in vectors_ND.tensor_split(shards):
        found_BK, own_BK = ExactSearch(shard_ND, device).search(query_BD.to(device), k)
        rows.append(found_BK + start)
        scores.append(own_BK)
        start += len(shard_ND)
    rows_BS, scores_BS = torch.cat(rows, dim=1), torch.cat(scores, dim=1)
    best_BK = scores_BS.sort(dim=1, descending=True, stable=True).indices[:, :k]
    return rows_BS.gather(1, best_BK), scores_BS.gather(1, best_BK)
