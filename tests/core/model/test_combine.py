"""`combine`: the parts of a combined model, and incompatible models."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from realm_core.errors import RealmError
from realm_core.index.build import build
from realm_core.model.checkpoint import Model, load_model, save_model
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
