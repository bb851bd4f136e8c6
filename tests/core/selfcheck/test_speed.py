"""Rates and shares are made of what was counted and how long it took."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from realm_core.model.bert import Architecture
from realm_core.selfcheck import speed
from realm_core.selfcheck.networks import Sample, random_networks

CPU = torch.device("cpu")
CONFIG = Architecture(vocab_size=100, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
BLOCKS, SENTENCES, MASKS = 5, 2, 4
DIMENSION = 128  # of a block's vector


def layer_flops(length: int) -> int:
    """Of the one layer of `CONFIG`: its four projections, two products of attention and two of the feed-forward."""
    return 2 * length * (4 * 16 * 16 + 2 * 16 * 32) + 2 * 2 * length * length * 16


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Sample]:
    """What is embedded and trained on: little. A run takes half a second, the fastest a quarter."""
    for name, value in (
        *(("_LARGE_CPU", 64), ("_BLOCKS_CPU", BLOCKS), ("_SENTENCES_CPU", SENTENCES), ("_MASKS", MASKS)),
        *(("_QUERY", (6, 9)), ("_BODY", (11, 30))),
        ("_times", lambda work, device, seconds: [0.5, 0.25, 9.0]),
    ):
        monkeypatch.setattr(speed, name, value)
    samples: list[Sample] = []
    draw_sample = speed.draw_sample

    def draw(*given: object, **more: object) -> Sample:
        samples.append(draw_sample(*given, **more))  # type: ignore[arg-type]
        return samples[-1]

    monkeypatch.setattr(speed, "draw_sample", draw)
    return samples


def test_rates_are_of_the_median_and_the_peak_of_the_fastest(drawn: list[Sample]) -> None:
    measured = speed.measure_speed(random_networks("small", CONFIG), CPU, 1.0)
    assert measured.peak_flops == 2 * 64**3 / 0.25
    assert (measured.blocks_per_s, measured.sequences_per_s) == (BLOCKS / 0.5, SENTENCES / 0.5)
    assert measured.memory_bytes > 50e6  # torch alone takes more


def test_shares_are_of_the_operations_that_the_drawn_sequences_need(drawn: list[Sample]) -> None:
    measured = speed.measure_speed(random_networks("small", CONFIG), CPU, 1.0)
    embedded, trained = drawn
    assert len(embedded.blocks.lengths) == BLOCKS
    flops = sum(map(layer_flops, embedded.blocks.lengths))
    assert measured.embedding_share == pytest.approx(flops / 0.5 / (2 * 64**3 / 0.25))

    pairs = SENTENCES * speed.K
    vectors = [*trained.queries.lengths, *trained.blocks.lengths]
    assert (len(vectors), len(trained.pairs.lengths)) == (SENTENCES + pairs, pairs)
    flops = 0
    for length in (*vectors, *trained.pairs.lengths):
        # Forward and twice that backward, but of queries, keys and values nothing for what lies below the first layer.
        flops += 3 * layer_flops(length) - 2 * length * 3 * 16 * 16
    flops += 3 * 2 * len(vectors) * 16 * DIMENSION
    flops += pairs * MASKS * (3 * 2 * 16 * 16 + 2 * 2 * 16 * 100)  # the decoder's matrix is not trained
    assert measured.training_share == pytest.approx(flops / 0.5 / (2 * 64**3 / 0.25))


def test_what_is_measured_leaves_the_weights_as_they_were() -> None:
    networks = random_networks("small", CONFIG)
    before = [tensor.clone() for tensor in networks.embedder.state_dict().values()]
    speed._training(networks, CPU, 1, 0.0)
    speed._embedding(networks, CPU, 2, 0.0)
    assert all(map(torch.equal, before, networks.embedder.state_dict().values()))
    assert networks.embedder.bert.dtype == torch.float32 and not networks.embedder.training


@pytest.mark.parametrize(
    ("seconds", "times"),
    [(0.0, [0.5, 0.25, 2.0]), (2.0, [0.5, 0.25, 2.0]), (3.0, [0.5, 0.25, 2.0, 1.0])],
    ids=["at least three", "the third ends later", "as long as told"],
)
def test_the_first_run_does_not_count(seconds: float, times: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, take_s = 100.0, iter([30.0, 0.5, 0.25, 2.0, 1.0, 1.0])

    def work() -> None:
        nonlocal now_s
        now_s += next(take_s)

    monkeypatch.setattr(speed, "time", SimpleNamespace(perf_counter=lambda: now_s))
    assert speed._times(work, CPU, seconds) == times
