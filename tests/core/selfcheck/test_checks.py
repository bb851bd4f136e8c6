"""A sound machine passes every check; a kernel that is wrong, in one thing at a time, fails the checks that see it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from realm_core.index.search import ExactSearch
from realm_core.model.bert import Architecture
from realm_core.model.encoder import MaskedLanguageHead
from realm_core.model.reader import Bodies, Reader
from realm_core.selfcheck.checks import DeviceCheck, run_checks, search_checks
from realm_core.selfcheck.networks import Networks, Sample, draw_sample, random_networks

CPU = torch.device("cpu")
_attend, _find, _score_words, _spans = (
    F.scaled_dot_product_attention,
    ExactSearch.search,
    MaskedLanguageHead.forward,
    Reader._spans,
)


@pytest.fixture(scope="module")
def networks() -> Networks:
    config = Architecture(
        vocab_size=200,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        initializer_range=0.15,  # so that attention prefers some wordpieces
    )
    return random_networks("small", config)


@pytest.fixture(scope="module")
def sample(networks: Networks) -> Sample:
    return draw_sample(networks.config, sentences=2, k=2, query=(6, 10), body=(3, 30), masks=2)


@pytest.fixture
def failed(networks: Networks, sample: Sample, monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[str]]:
    """What fails among the checks of the networks, in float32."""
    monkeypatch.setattr("realm_core.selfcheck.checks.search_checks", lambda device: iter(()))
    monkeypatch.setattr("realm_core.selfcheck.checks.fast_dtype", lambda device: torch.float32)

    def run() -> set[str]:
        checks = [check for check in run_checks(networks, sample, CPU) if check.way != "as served"]
        assert len(checks) == 5
        assert {check.raised for check in checks} <= {"", "no such kernel"}
        return {check.what for check in checks if not check.passed}

    return run


FORWARD = {"vectors", "words at masks", "scores of spans"}
GRADIENTS = {"gradient of pre-training", "gradient of fine-tuning"}


@pytest.mark.parametrize("blocks", [20_000, pytest.param(None, marks=pytest.mark.nightly)])
def test_a_sound_machine_passes(
    networks: Networks, sample: Sample, blocks: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None: as many blocks as a person's machine searches, which takes two seconds."""
    if blocks is not None:
        monkeypatch.setattr(
            "realm_core.selfcheck.checks.search_checks", lambda device: search_checks(device, blocks=blocks)
        )
    checks = list(run_checks(networks, sample, CPU))
    assert [check for check in checks if not check.passed] == []
    assert FORWARD | GRADIENTS | {"rows found by search", "scores of search"} == {check.what for check in checks}
    assert {check.way for check in checks} >= {"float32, one sequence at a time", "whole numbers, 7 shards"}


def _too_sharp(query: Tensor, *others: Tensor, **options: Any) -> Tensor:
    return _attend(1.05 * query, *others, **options)


def _forgets_the_last(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    return _attend(query, key[:, :, :-1], value[:, :, :-1], **options)


def _missing(*_tensors: Tensor, **_options: Any) -> Tensor:
    raise RuntimeError("no such kernel\nsecond line")


def _not_a_number(*tensors: Tensor, **options: Any) -> Tensor:
    return _attend(*tensors, **options) * math.nan


class _WeakGradient(torch.autograd.Function):
    """Right forward, a tenth too small backward."""

    @staticmethod
    def forward(ctx: Any, context: Tensor) -> Tensor:
        return context.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return 0.9 * gradient


def _wrong_backwards(*tensors: Tensor, **options: Any) -> Tensor:
    context: Tensor = _WeakGradient.apply(_attend(*tensors, **options))
    return context


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (_too_sharp, FORWARD | GRADIENTS),
        (_forgets_the_last, FORWARD | GRADIENTS),
        (_missing, FORWARD | GRADIENTS),
        (_not_a_number, FORWARD | GRADIENTS),
        (_wrong_backwards, GRADIENTS),
    ],
)
def test_broken_attention_fails(
    kernel: Callable[..., Tensor],
    expected: set[str],
    failed: Callable[[], set[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(F, "scaled_dot_product_attention", kernel)
    assert failed() == expected


def test_a_wrong_language_head_fails_its_checks_alone(
    failed: Callable[[], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_off(head: MaskedLanguageHead, hidden: Tensor, words: Tensor) -> Tensor:
        return _score_words(head, hidden, words).roll(1, dims=1)

    monkeypatch.setattr(MaskedLanguageHead, "forward", one_off)
    assert failed() == {"words at masks", "gradient of pre-training"}


def test_spans_that_cut_a_word_fail(failed: Callable[[], set[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    def anywhere(reader: Reader, bodies: Bodies) -> Tensor:
        return _spans(reader, replace(bodies, word_end_N=torch.ones_like(bodies.word_end_N)))

    monkeypatch.setattr(Reader, "_spans", anywhere)
    assert failed() == {"scores of spans", "gradient of fine-tuning"}


def search() -> list[DeviceCheck]:
    return list(search_checks(CPU, blocks=2000, queries=4, k=20, shards=3))


def test_sound_search_passes() -> None:
    assert all(check.passed for check in search())
    # Whole numbers have many equal scores, so that the order among them is seen.
    assert [check.error for check in search()][:2] == [0.0, 0.0]


def test_search_that_passes_a_row_over_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def from_the_second(self: ExactSearch, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        rows, scores = _find(self, queries, k + 1)
        return rows[:, 1:], scores[:, 1:]

    monkeypatch.setattr(ExactSearch, "search", from_the_second)
    assert not any(check.passed for check in search())


def test_equal_scores_in_another_order_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def unstable(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
        mixed = torch.randperm(scores.shape[1], generator=torch.Generator().manual_seed(0))
        best, places = scores[:, mixed].sort(dim=1, descending=True, stable=True)
        return best[:, :k], mixed[places[:, :k]]

    monkeypatch.setattr("realm_core.index.search.stable_top", unstable)
    assert [check.passed for check in search()] == [
        False,
        False,
        True,
        True,
    ]  # where no scores are equal, nothing is wrong


def test_rounded_scores_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(self: ExactSearch, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        rows, scores = _find(self, queries, k)
        return rows, scores.bfloat16().float()

    monkeypatch.setattr(ExactSearch, "search", rounded)
    assert not search()[-1].passed


def test_what_is_not_a_number_has_not_passed() -> None:
    assert not DeviceCheck("x", "y", math.nan, 1.0).passed
    assert DeviceCheck("x", "y", 1.0, 1.0).passed
