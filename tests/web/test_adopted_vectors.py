"""The data folder's copy of a shipped model has the vectors that are shipped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from realm_core.files import read_json, write_json
from realm_core.index.build import build
from realm_core.index.manifest import SHIPPED, read_manifest
from realm_core.runs.activity import Activity
from tests.tiny import tiny_model, tiny_snapshot
from webapp.artefacts.registering import adopt_model
from webapp.storage.places import resolve

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("same_embedder", [True, False])
def test_a_model_uses_the_vectors_that_came_with_the_one_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same_embedder: bool
) -> None:
    """As `MODEL=realm-mini make run` does: only realm-base has vectors, and the index is built from a copy."""
    shipped, corpus = tmp_path / "shipped", tiny_snapshot(tmp_path)
    shipped.mkdir()
    mini = tiny_model(tmp_path / "made").rename(shipped / "realm-mini")
    base = Path(shutil.copytree(mini, shipped / "realm-base"))
    build(base, corpus, tmp_path / "first", Activity(quiet=True), device="cpu").rename(base / SHIPPED)
    if not same_embedder:
        config = read_json(mini / "config.json")
        write_json(mini / "config.json", {**config, "block_hash": "another one"}, sealed=True)
    own = resolve(adopt_model(mini).path)
    assert (own / SHIPPED).exists() == same_embedder
    if same_embedder:
        monkeypatch.setattr("realm_core.index.build._build_shards", None)
        built = build(own, corpus, tmp_path / "indexes", Activity(quiet=True), device="cpu")
        assert read_manifest(built)["shards"] == read_manifest(base / SHIPPED)["shards"]


def test_vectors_of_another_corpus_replace_those_of_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release with the same model and a richer corpus: its index is not computed by those who had the earlier one."""
    shipped = tiny_model(tmp_path / "made").rename(tmp_path / "realm-base")

    def ship(corpus: Path, name: str) -> None:
        shutil.rmtree(shipped / SHIPPED, ignore_errors=True)
        build(shipped, corpus, tmp_path / name, Activity(quiet=True), device="cpu").rename(shipped / SHIPPED)

    ship(tiny_snapshot(tmp_path), "first")
    own = resolve(adopt_model(shipped).path)
    richer = tiny_snapshot(tmp_path / "richer", {"Rome": "Rome is the capital of Italy. It lies on the Tiber."})
    ship(richer, "second")
    assert resolve(adopt_model(shipped).path) == own
    monkeypatch.setattr("realm_core.index.build._build_shards", None)
    built = build(own, richer, tmp_path / "indexes", Activity(quiet=True), device="cpu")
    assert read_manifest(built)["rows"] == 1
    assert sorted(path.name for path in own.iterdir()) == sorted(path.name for path in shipped.iterdir())
