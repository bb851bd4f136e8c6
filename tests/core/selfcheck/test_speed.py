"""Rates and shares are made of what was counted and how long it took."""

from __future__ import annotations

import time

import pytest
import torch

from realm_core.model.bert import Architecture
from realm_core.model.operations import encoder_flops, encoder_training_flops
from realm_core.selfcheck import speed
from realm_core.selfcheck.parts import random_parts

CPU = torch.device("cpu")
CONFIG = Architecture(vocab_size=100, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)


def test_rates_follow_from_operations_and_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_times", lambda work, device, seconds: [0.5, 0.25, 9.0])
    monkeypatch.setattr(speed, "_LARGE_CPU", 64)
    measured = speed.measure_speed(random_parts("small", CONFIG), CPU, 1.0)
    assert measured.peak_flops == 2 * 64**3 / 0.25  # the fastest try
    assert (measured.blocks_per_s, measured.sequences_per_s) == (speed._BLOCKS_CPU / 0.5, speed._SENTENCES_CPU / 0.5)
    sample = speed.draw_sample(
        CONFIG, sentences=1, k=speed._BLOCKS_CPU, query=speed._QUERY, body=speed._BODY, masks=speed._MASKS
    )
    assert measured.embedding_share == encoder_flops(CONFIG, sample.blocks.lengths) / 0.5 / measured.peak_flops
    sample = speed.draw_sample(
        CONFIG, sentences=speed._SENTENCES_CPU, k=8, query=speed._QUERY, body=speed._BODY, masks=speed._MASKS
    )
    layers = encoder_training_flops(CONFIG, [*sample.queries.lengths, *sample.blocks.lengths, *sample.pairs.lengths])
    masks = speed._SENTENCES_CPU * 8 * speed._MASKS
    heads = 6 * 128 * 16 * speed._SENTENCES_CPU * 9 + masks * (6 * 16**2 + 4 * 16 * 100)
    assert measured.training_share == pytest.approx((layers + heads) / 0.5 / measured.peak_flops)
    assert measured.memory_bytes > 50e6  # torch alone takes more


def test_what_is_measured_leaves_the_weights_as_they_were() -> None:
    parts = random_parts("small", CONFIG)
    before = [tensor.clone() for tensor in parts.embedder.state_dict().values()]
    speed._training(parts, CPU, 1, 0.0)
    speed._embedding(parts, CPU, 2, 0.0)
    assert all(map(torch.equal, before, parts.embedder.state_dict().values()))
    assert parts.embedder.bert.dtype == torch.float32 and not parts.embedder.training


def test_the_first_run_does_not_count_and_three_do() -> None:
    runs: list[float] = []

    def work() -> None:
        time.sleep(0.03 if not runs else 0.001)
        runs.append(0.0)

    times = speed._times(work, CPU, 0.0)
    assert len(runs) == 4 and len(times) == 3
    assert len(speed._times(lambda: time.sleep(0.01), CPU, 0.2)) > 3
