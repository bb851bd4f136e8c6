"""`combine`: the parts of a combined model, and incompatible models."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from realm_core.errors import RealmError
from realm_core.index.build import build
from realm_core.model.checkpoint import Model, load_model, new_model, save_model
from tests.core.running import activity_of
from tests.core.training.towns import QUIET, towns_model
from tests.tiny import tiny_snapshot


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
    narrow = new_model(dataclasses.replace(first.config, span_hidden=8))
    save_model(narrow, tmp_path / "narrow")
    with pytest.raises(RealmError, match="narrow cannot be averaged: their shapes differ"):
        readers = [folders[0], tmp_path / "narrow"]
        activity_of("combine", ["--retriever", folders[0], "--reader", *readers, "--output", tmp_path / "none"])
    assert not (tmp_path / "none").exists()
