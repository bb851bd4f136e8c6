"""`pack`: what is stored small reads as before, and temperatures do to scores what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from realm_core.errors import RealmError
from realm_core.model.checkpoint import Model, load_model, new_model, save_model
from realm_core.model.packed import Packed
from realm_core.model.reader import Bodies
from tests.core.running import activity_of
from tests.tiny import tiny_config

PAIR = Packed.of([[101, 2040, 102, 2003, 2004, 2005, 102]], [[0, 0, 0, 1, 1, 1, 1]])
BODY = Bodies(torch.tensor([3, 4, 5]), torch.tensor([3, 2, 1]), torch.ones(3).bool(), torch.ones(3).bool(), (3,))


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


@torch.no_grad()
def test_temperatures_divide_scores_and_logits(trained: Path) -> None:
    before = load_model(trained)
    after = pack(
        trained, "--prior-temperature", 2, "--reading-temperature", 0.5, "--query", "float32", "--reader", "float32"
    )
    torch.testing.assert_close(after.query(PAIR), before.query(PAIR) / 2, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(after.block(PAIR), before.block(PAIR))
    torch.testing.assert_close(after.reader(PAIR, BODY), before.reader(PAIR, BODY) * 2, rtol=1e-4, atol=1e-5)
    assert after.block_hash == before.block_hash


@torch.no_grad()
def test_four_bits_keep_what_training_added(trained: Path) -> None:
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


@pytest.mark.parametrize("temperature", ["0", "-1", "inf", "nan"])
def test_impossible_temperatures_are_refused(trained: Path, temperature: str) -> None:
    with pytest.raises(RealmError, match="--reading-temperature must be a number above 0"):
        pack(trained, f"--reading-temperature={temperature}")
