"""Vectors that come with a model are used only for their corpus."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from realm_core.errors import RealmError
from realm_core.files import write_json
from realm_core.index.build import build
from realm_core.index.generation import Generation, read_vectors
from realm_core.index.manifest import MANIFEST_FILE, SHIPPED, is_complete, read_manifest
from realm_core.index.stored_rows import StoredRows
from realm_core.runs.activity import Activity
from realm_core.tensors import save_tensors
from tests.core.running import activity_of
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


def test_an_index_is_quantised_to_be_shipped_and_dequantised_where_it_is_used(
    shipped: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, corpus = shipped
    index = (model / SHIPPED).rename(tmp_path / "index")
    approximate = {"search": {"kind": "ivf", "files": [{"file": "lists.safetensors", "sha256": ""}]}}
    write_json(index / MANIFEST_FILE, read_manifest(index) | approximate, sealed=True)
    activity_of("ship-vectors", ["--index", index, "--output", model / SHIPPED])
    assert is_complete(model / SHIPPED)  # without what the index is searched by
    whole, small = Generation.open(index), Generation.open(model / SHIPPED)
    files = [next(folder.glob("vectors-*")).stat().st_size for folder in (index, model / SHIPPED)]
    assert files[1] < files[0]
    assert not torch.equal(whole.vectors_ND, small.vectors_ND)
    assert torch.allclose(whole.vectors_ND, small.vectors_ND, atol=whole.vectors_ND.abs().max() / 60)
    monkeypatch.setattr("realm_core.index.build._build_shards", None)
    built = build(model, corpus, tmp_path / "indexes", Activity(quiet=True), device="cpu")
    assert torch.equal(Generation.open(built).vectors_ND, small.vectors_ND)
    rows = StoredRows.of(built, read_manifest(built)).at(np.arange(2))
    assert torch.equal(rows, small.vectors_ND[:2].float())
    with pytest.raises(RealmError, match="is quantised, as it comes with a model"):
        StoredRows.of(model / SHIPPED, read_manifest(model / SHIPPED))
    with pytest.raises(RealmError, match="exists already"):
        activity_of("ship-vectors", ["--index", index, "--output", model / SHIPPED])


def test_vectors_that_an_earlier_version_shipped_in_eight_bits_are_read(tmp_path: Path) -> None:
    multiples = torch.tensor([[127, -127, 3], [0, 1, -2]], dtype=torch.int8)
    save_tensors(tmp_path / "shard", {"multiples": multiples, "scales": torch.tensor([[0.5], [2.0]]).half()})
    expected = torch.tensor([[63.5, -63.5, 1.5], [0, 2, -4]]).half()
    assert torch.equal(read_vectors(tmp_path / "shard", 2, 3), expected)


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
