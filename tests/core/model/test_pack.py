"""`pack`: a quantised model reads as before."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from realm_core.model.checkpoint import Model, load_model, new_model, save_model
from realm_core.model.config import Calibration
from tests.core.running import activity_of
from tests.tiny import tiny_config


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    model = new_model(tiny_config(tmp_path / "base"), seed=7)
    with torch.no_grad():
        for layer in model.reader.bert.layers:
            layer.output.dense.weight.add_(0.02 * torch.randn(32, 64, generator=torch.Generator().manual_seed(1)))
    save_model(model, tmp_path / "trained")
    return tmp_path / "trained"


def pack(trained: Path, *options: object) -> Model:
    output = trained.with_name(f"packed-{len(list(trained.parent.iterdir()))}")
    activity_of("pack", ["--model", trained, "--output", output, *options])
    return load_model(output)


def test_a_least_share_takes_the_place_of_the_least_confidence(trained: Path) -> None:
    model = load_model(trained)
    sure = Calibration(min_confidence=0.4, min_probability=0.1, confidence_offset=0.5)
    config = model.config.calibrated(sure, "default en", dataclasses.replace(sure, prior_temperature=2.0))
    calibrated = trained.with_name("calibrated")
    save_model(dataclasses.replace(model, config=config), calibrated)
    packed = pack(calibrated, "--min-probability", 0.25).config
    for origin in ("default en", "another"):
        limited = dataclasses.replace(config.at(origin), min_confidence=0.0, min_probability=0.25)
        assert packed.at(origin) == limited
    assert pack(calibrated).config.min_confidence == 0.4


@torch.no_grad()
def test_four_bits_keep_the_difference_from_the_base(trained: Path) -> None:
    before, after = load_model(trained), pack(trained, "--reader", "delta4")
    base = new_model(before.config, seed=7)
    for one, other, first in zip(
        before.reader.bert.layers, after.reader.bert.layers, base.reader.bert.layers, strict=True
    ):
        added = one.output.dense.weight - first.output.dense.weight
        lost = (one.output.dense.weight - other.output.dense.weight).abs()
        step_rows = added.abs().amax(dim=1) / 7
        assert (lost <= 0.51 * step_rows.unsqueeze(1) + 1e-6).all() and lost.max() > 0
        assert torch.equal(one.intermediate.dense.weight, other.intermediate.dense.weight)  # unchanged, not stored
