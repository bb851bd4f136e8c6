"""A reader whose matrices get a low-rank change, which is stored beside the weights that it started from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from realm_core.__main__ import run as run_task
from realm_core.errors import RealmError, Stopped
from realm_core.files import read_json, sha256_of_file, write_json
from realm_core.model.adapter import LowRank, changes, joined_adapters
from realm_core.model.checkpoint import Model, load_model, own_adapter
from realm_core.runs.activity import Activity
from realm_core.tensors import load_tensors, save_tensors
from tests.core.running import activity_of, metrics, told
from tests.core.training.test_train_reader import arguments
from tests.tiny import tiny_model

MATRIX = "encoder.layer.1.attention.self.query.weight"


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model that training begins with."""
    return tiny_model(tmp_path_factory.mktemp("start"))


@pytest.fixture(scope="module")
def first(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has been trained once, a little."""
    folder = tmp_path_factory.mktemp("first") / "first"
    trained(start, folder, "steps=10")
    return folder


def trained(start: Path, output: Path, *settings: str, run: Path | None = None) -> Model:
    activity_of("train-reader", arguments(start, output, "low_rank=4", *settings), run=run)
    return load_model(output)


def test_it_learns_and_leaves_the_weights_as_they_are(start: Path, tmp_path: Path) -> None:
    after = trained(start, tmp_path / "made", "frozen_layers=1", run=tmp_path / "run")
    losses = list(metrics(tmp_path / "run", "train-reader.loss").values())
    assert losses[-1] < 0.5 * losses[0]
    made, before = tmp_path / "made", load_model(start)
    assert (made / "model.safetensors").read_bytes() == (start / "model.safetensors").read_bytes()
    assert after.block_hash == before.block_hash and after.hash != before.hash
    old, new = before.reader.bert.state_dict(), after.reader.bert.state_dict()
    change = new[MATRIX] - old[MATRIX]
    assert int(torch.linalg.matrix_rank(change, rtol=1e-3)) == 4
    changed = {name for name in old if not torch.equal(old[name], new[name])}
    linear = {f"{name}.weight" for name, module in before.reader.bert.named_modules() if isinstance(module, nn.Linear)}
    assert changed == {name for name in linear if name.startswith("encoder.layer.1.")}


def test_a_second_pass_of_another_rank_adds_to_the_first(start: Path, first: Path, tmp_path: Path) -> None:
    second = trained(first, tmp_path / "second", "steps=10", "seed=2", "low_rank=2")
    own = own_adapter(tmp_path / "second")
    assert own[f"reader.bert.{MATRIX}:down"].shape[0] == 6
    earlier, before = own_adapter(first), load_model(first)
    # What is stored is the start and both changes: the first's rows are those of the first's own file.
    assert torch.equal(own[f"reader.bert.{MATRIX}:down"][:4], earlier[f"reader.bert.{MATRIX}:down"])
    assert not torch.equal(before.reader.score.weight, second.reader.score.weight)
    old, between, new = (model.reader.bert.state_dict()[MATRIX] for model in (load_model(start), before, second))
    both = changes(own)[f"reader.bert.{MATRIX}"]
    assert torch.allclose(new, old + both, atol=1e-6)
    assert not torch.allclose(new, between, atol=1e-4)


def test_a_second_pass_of_the_same_rank_trains_the_first_further(start: Path, first: Path, tmp_path: Path) -> None:
    before = own_adapter(first)
    still = trained(first, tmp_path / "still", "steps=1", "reader_lr=1e-9", "head_lr=1e-9")
    own = own_adapter(tmp_path / "still")
    assert own.keys() == before.keys()
    assert all(torch.allclose(own[name], before[name], atol=1e-3) for name in own)
    further = trained(first, tmp_path / "further", "steps=10", "seed=2")
    matrices = [model.reader.bert.state_dict()[MATRIX] for model in (load_model(first), still, further)]
    assert torch.allclose(matrices[1], matrices[0], atol=1e-4)
    assert not torch.allclose(matrices[2], matrices[0], atol=1e-3)
    start_matrix = load_model(start).reader.bert.state_dict()[MATRIX]
    assert int(torch.linalg.matrix_rank(matrices[2] - start_matrix, rtol=1e-3)) == 4


def test_a_second_pass_of_a_higher_rank_trains_the_first_further(start: Path, tmp_path: Path) -> None:
    first = trained(start, tmp_path / "first", "steps=10", "frozen_layers=1")
    wider = trained(tmp_path / "first", tmp_path / "wider", "low_rank=6", "steps=1", "reader_lr=1e-9", "head_lr=1e-9")
    own = own_adapter(tmp_path / "wider")
    assert {len(tensor) for name, tensor in own.items() if name.endswith(":down")} == {6}
    layers = {name.split(".")[4] for name in own if name.endswith(":down")}
    assert layers == {"0", "1"}  # the layer that was frozen before learns now
    matrices = [model.reader.bert.state_dict()[MATRIX] for model in (first, wider)]
    assert torch.allclose(*matrices, atol=1e-4)


def test_changes_are_stored_in_eight_bits(start: Path, tmp_path: Path) -> None:
    trained(start, tmp_path / "made", "steps=3")
    stored = load_tensors(tmp_path / "made" / "adapter.safetensors")
    down = f"reader.bert.{MATRIX}:down"
    assert stored[down].dtype == torch.int8 and stored[f"{down}:scale"].shape == stored[down].shape[:1]
    read = own_adapter(tmp_path / "made")[down]
    assert torch.allclose(read, stored[down].float() * stored[f"{down}:scale"].float().unsqueeze(1))


def test_a_stopped_training_goes_on_and_ends_the_same(start: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"

    class StopsAtTheCheckpoint(Activity):
        def check(self) -> None:
            if list(run.glob("*/checkpoint-*")):
                raise Stopped

    settings = ("steps=10", "checkpoint_every=5")
    whole = trained(start, tmp_path / "whole", *settings)
    words = arguments(start, tmp_path / "again", "low_rank=4", *settings)
    with pytest.raises(Stopped):
        run_task(told("train-reader", words), StopsAtTheCheckpoint(run, quiet=True))
    assert [path.name for path in run.glob("*/checkpoint-*")] == ["checkpoint-5"]
    again = trained(start, tmp_path / "again", *settings, run=run)
    assert again.hash == whole.hash


def test_the_layer_computes_what_the_merged_matrix_would() -> None:
    torch.manual_seed(0)
    layer = LowRank(nn.Linear(6, 5), rank=2)
    with torch.no_grad():
        layer.up.normal_()
    rows = torch.randn(3, 6)
    merged = layer.linear.weight + layer.up @ layer.down
    assert torch.allclose(layer(rows), rows @ merged.T + layer.linear.bias, atol=1e-6)


def test_two_adapters_do_what_both_did() -> None:
    one, other = ({"m:down": torch.randn(2, 6), "m:up": torch.randn(5, 2), "w": torch.randn(3)} for _ in range(2))
    both = joined_adapters(one, other)
    assert torch.allclose(changes(both)["m"], changes(one)["m"] + changes(other)["m"], atol=1e-5)
    assert torch.equal(both["w"], other["w"])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: t.pop(f"reader.bert.{MATRIX}:up"), "is not whole"),
        (lambda t: t.update({"reader.other:down": torch.zeros(2, 3), "reader.other:up": torch.zeros(3, 2)}), "belong"),
        (lambda t: t.update({f"reader.bert.{MATRIX}:up": torch.zeros(7, 4)}), "belong"),
        (lambda t: t.pop(f"reader.bert.{MATRIX}:up:scale"), "scale is missing"),
    ],
)
def test_a_damaged_adapter_is_refused_by_name(first: Path, tmp_path: Path, damage: object, message: str) -> None:
    shutil.copytree(first, tmp_path / "made")
    path = tmp_path / "made" / "adapter.safetensors"
    tensors = load_tensors(path)
    damage(tensors)  # type: ignore[operator]
    save_tensors(path, {name: tensor.contiguous() for name, tensor in tensors.items()})
    with pytest.raises(RealmError, match=r"adapter\.safetensors is damaged"):
        load_model(tmp_path / "made")
    record = read_json(tmp_path / "made" / "config.json")
    write_json(tmp_path / "made" / "config.json", record | {"adapter_sha256": sha256_of_file(path)}, sealed=True)
    with pytest.raises(RealmError, match=message):
        load_model(tmp_path / "made")
