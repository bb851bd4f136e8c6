"""`combine`: the parts of a combined model, and incompatible models."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from realm_core.errors import RealmError
from realm_core.index.build import build
from realm_core.model.adapter import changes, mean
from realm_core.model.checkpoint import Model, load_model, new_model, own_adapter, save_model
from tests.core.running import activity_of
from tests.core.training.test_low_rank import trained
from tests.core.training.towns import QUIET, towns_model
from tests.tiny import tiny_deployment, tiny_snapshot


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models that differ in every part."""
    root = tmp_path_factory.mktemp("models")
    for seed in (1, 2):
        save_model(towns_model(root / "base", seed=seed), root / f"model-{seed}", about={"recipe": [f"seed {seed}"]})
    return root / "model-1", root / "model-2"


def combine(retriever: Path, encoder: Path, output: Path) -> Model:
    activity_of("combine", ["--retriever", retriever, "--encoder", encoder, "--output", output])
    return load_model(output)


def same(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    other = second.state_dict()
    return all(torch.equal(tensor, other[name]) for name, tensor in first.state_dict().items())


def test_each_part_comes_from_the_right_model(folders: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = map(load_model, folders)
    made = combine(*folders, tmp_path / "made")
    assert first.encoder is not None and second.encoder is not None and made.encoder is not None
    assert same(made.query, first.query) and same(made.block, first.block)
    assert same(made.encoder, second.encoder) and same(made.reader.bert, second.encoder.bert)
    assert not same(made.encoder, first.encoder) and not same(made.block, second.block)
    for part in ("ends", "norm", "score"):
        assert same(getattr(made.reader, part), getattr(second.reader, part))
    assert made.about == {"recipe": ["seed 1", f"encoder and reader of {second.hash}"]}


def test_an_index_of_the_retriever_is_one_of_the_combined(folders: tuple[Path, Path], tmp_path: Path) -> None:
    made, corpus = combine(*folders, tmp_path / "made"), tiny_snapshot(tmp_path)
    assert made.block_hash == load_model(folders[0]).block_hash
    index = build(folders[0], corpus, tmp_path / "indexes", QUIET, device="cpu")
    assert build(tmp_path / "made", corpus, tmp_path / "indexes", QUIET, device="cpu") == index


def test_incompatible_models_are_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model = load_model(folders[0])
    save_model(dataclasses.replace(model, encoder=None), tmp_path / "bare")
    save_model(
        dataclasses.replace(model, config=dataclasses.replace(model.config, block_wordpieces=99)), tmp_path / "odd"
    )
    with pytest.raises(RealmError, match=r"bare has no encoder of masked sentences; `mlm` or `pretrain` makes one\."):
        combine(folders[0], tmp_path / "bare", tmp_path / "made")
    with pytest.raises(RealmError, match=r"block_wordpieces is 99 in the former and 288 in the latter\."):
        combine(tmp_path / "odd", folders[0], tmp_path / "made")
    with pytest.raises(RealmError, match=r"bare exists already"):
        combine(folders[0], folders[1], tmp_path / "bare")
    assert not (tmp_path / "made").exists()


def test_the_readers_of_several_are_averaged(folders: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = map(load_model, folders)
    activity_of("combine", ["--retriever", folders[0], "--reader", *folders, "--output", tmp_path / "mean"])
    made, one, other = load_model(tmp_path / "mean"), first.reader.state_dict(), second.reader.state_dict()
    for name, tensor in made.reader.state_dict().items():
        assert torch.allclose(tensor, (one[name] + other[name]) / 2, atol=1e-6), name
    assert same(made.query, first.query) and not same(made.reader, first.reader)
    assert made.about is not None and made.about["recipe"][-1].startswith("mean of the readers of ")
    activity_of("combine", ["--retriever", folders[0], "--reader", folders[1], "--output", tmp_path / "one"])
    assert same(load_model(tmp_path / "one").reader, second.reader)
    shares = ["--shares", 1, 3, "--output", tmp_path / "shared"]
    activity_of("combine", ["--retriever", folders[0], "--reader", *folders, *shares])
    for name, tensor in load_model(tmp_path / "shared").reader.state_dict().items():
        assert torch.allclose(tensor, one[name] / 4 + other[name] * 3 / 4, atol=1e-6), name
    with pytest.raises(RealmError, match="shares must be one for each of the 2 readers"):
        activity_of("combine", ["--retriever", folders[0], "--reader", *folders, "--shares", 1, "--output", "x"])
    narrow = new_model(dataclasses.replace(first.config, span_hidden=8))
    save_model(narrow, tmp_path / "narrow")
    with pytest.raises(RealmError, match="narrow cannot be averaged: their shapes differ"):
        readers = [folders[0], tmp_path / "narrow"]
        activity_of("combine", ["--retriever", folders[0], "--reader", *readers, "--output", tmp_path / "none"])
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("rank", "ranks"), [(0, {6}), (5, {5})])
def test_the_mean_of_low_rank_changes_is_one(tmp_path: Path, rank: int, ranks: set[int]) -> None:
    start = tiny_deployment(tmp_path)[0]
    folders = []
    for seed, own_rank in ((1, 4), (2, 2)):
        folders.append(tmp_path / f"trained-{seed}")
        trained(start, folders[-1], f"seed={seed}", f"low_rank={own_rank}", "steps=4")
    options = ["--shares", 0.25, 0.75, "--rank", rank, "--output", tmp_path / "made"]
    activity_of("combine", ["--retriever", folders[0], "--reader", *folders, *options])
    own = own_adapter(tmp_path / "made")
    assert {len(tensor) for name, tensor in own.items() if name.endswith(":down")} == ranks
    assert (tmp_path / "made" / "model.safetensors").read_bytes() == (start / "model.safetensors").read_bytes()
    made, one, other = (load_model(path).reader.state_dict() for path in (tmp_path / "made", *folders))
    for name, tensor in made.items():
        assert torch.allclose(tensor, one[name] / 4 + other[name] * 3 / 4, atol=2e-3 if rank else 5e-4), name


def test_a_change_of_less_rank_is_the_nearest() -> None:
    torch.manual_seed(0)
    adapters = [{"m:down": torch.randn(rank, 9), "m:up": torch.randn(7, rank)} for rank in (3, 2)]
    whole = changes(mean(adapters, (0.3, 0.7), None))["m"]
    assert torch.allclose(whole, 0.3 * changes(adapters[0])["m"] + 0.7 * changes(adapters[1])["m"], atol=1e-5)
    left, values, right = torch.linalg.svd(whole, full_matrices=False)
    nearest = left[:, :3] * values[:3] @ right[:3]
    assert torch.allclose(changes(mean(adapters, (0.3, 0.7), 3))["m"], nearest, atol=1e-4)
