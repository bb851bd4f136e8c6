"""Vectors that come with a model are used only for their corpus."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from realm_core.errors import RealmError
from realm_core.index.build import build
from realm_core.index.generation import Generation
from realm_core.index.manifest import SHIPPED
from realm_core.runs.activity import Activity
from tests.tiny import tiny_model, tiny_snapshot


@pytest.fixture
def shipped(tmp_path: Path) -> tuple[Path, Path]:
    """A model with vectors of the tiny corpus, altered so that a copy differs from a computation."""
    model, corpus = tiny_model(tmp_path), tiny_snapshot(tmp_path)
    built = build(model, corpus, tmp_path / "first", Activity(quiet=True), device="cpu")
    built.rename(model / SHIPPED)
    return model, corpus


def test_shipped_vectors_are_copied(
    shipped: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, corpus = shipped

    def fail(*_: object) -> None:
        raise AssertionError("vectors were computed")

    monkeypatch.setattr("realm_core.index.build._build_shards", fail)
    copy = Generation.open(build(model, corpus, tmp_path / "indexes", Activity(quiet=True), device="cpu"))
    assert torch.equal(copy.vectors_ND, Generation.open(model / SHIPPED).vectors_ND)


def test_a_model_uses_the_vectors_of_another_with_the_same_block_embedder(
    shipped: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, corpus = shipped
    other = tmp_path / "other"
    shutil.copytree(model, other, ignore=shutil.ignore_patterns(SHIPPED))
    monkeypatch.setattr("realm_core.index.build._build_shards", None)
    copy = Generation.open(build(other, corpus, tmp_path / "indexes", Activity(quiet=True), device="cpu"))
    assert torch.equal(copy.vectors_ND, Generation.open(model / SHIPPED).vectors_ND)


def test_another_corpus_is_embedded(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    model, _ = shipped
    other = tiny_snapshot(tmp_path / "other", {"Rome": "Rome is the capital of Italy. It lies on the Tiber."})
    generation = Generation.open(build(model, other, tmp_path / "indexes", Activity(quiet=True), device="cpu"))
    assert generation.manifest["rows"] == 1


def test_damaged_shipped_vectors_are_refused(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    model, corpus = shipped
    shard = next((model / SHIPPED).glob("vectors-*"))
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    with pytest.raises(RealmError, match="damaged"):
        build(model, corpus, tmp_path / "indexes", Activity(quiet=True), device="cpu")
