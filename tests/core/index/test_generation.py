"""Opening an index: damage and mismatches are detected before it is used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import read_json, sha256_of_file
from realm_core.index.bm25 import SparseRetriever
from realm_core.index.generation import Generation
from realm_core.index.retriever import DenseRetriever, check_manifest_fits
from realm_core.index.search import ExactSearch
from realm_core.model.checkpoint import load_model
from realm_core.serving.engine import Engine
from tests.core.conftest import Deployment
from tests.tiny import tiny_model, tiny_snapshot

SHARD = "vectors-00000.safetensors"


def write_generation(folder: Path, vectors_ND: torch.Tensor, shard_rows: int) -> None:
    """A generation of these vectors in the documented format."""
    folder.mkdir()
    shards = []
    for number, start in enumerate(range(0, len(vectors_ND), shard_rows)):
        path = folder / f"vectors-{number:05d}.safetensors"
        part = vectors_ND[start : start + shard_rows]
        save_file({"vectors": part.clone()}, path)
        shards.append({"file": path.name, "start": start, "stop": start + len(part), "sha256": sha256_of_file(path)})
    manifest = {"format": 1, "generation": "drawn", "rows": len(vectors_ND), "dim": vectors_ND.shape[1]}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "shards": shards}))


@settings(max_examples=20)
@given(rows=st.integers(1, 40), shard_rows=st.sampled_from([1, 5, 1000]), seed=st.integers(0, 99))
def test_the_search_of_shards_is_the_search_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, rows: int, shard_rows: int, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    vectors, queries = torch.randn(rows, 8, generator=draw).half(), torch.randn(2, 8, generator=draw)
    folder = tmp_path_factory.mktemp("generations") / "drawn"
    write_generation(folder, vectors, shard_rows)
    opened = Generation.open(folder)
    assert torch.equal(opened.vectors_ND, vectors)
    found, scores = ExactSearch(opened.vectors_ND).search(queries, 7)
    whole, whole_scores = (queries @ vectors.float().T).sort(dim=1, descending=True, stable=True)[::-1]
    assert found.tolist() == whole[:, :7].tolist()
    torch.testing.assert_close(scores, whole_scores[:, :7])


# ── Damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        manifest = read_json(folder / "manifest.json")
        change(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return rewrite


def _flip_a_byte(folder: Path) -> None:
    data = bytearray((folder / SHARD).read_bytes())
    data[-1] ^= 1
    (folder / SHARD).write_bytes(data)


def _replace_shard(content: dict[str, torch.Tensor] | bytes) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        if isinstance(content, bytes):
            (folder / SHARD).write_bytes(content)
        else:
            save_file(content, folder / SHARD)
        _manifest(lambda m: m["shards"][0].update(sha256=sha256_of_file(folder / SHARD)))(folder)

    return rewrite


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte": (_flip_a_byte, rf"{SHARD} is damaged"),
    "no shard": (lambda folder: (folder / SHARD).unlink(), rf"{SHARD} does not exist"),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), r"manifest\.json does not exist"),
    "no folder": (shutil.rmtree, r"manifest\.json does not exist"),
    "not JSON": (lambda folder: (folder / "manifest.json").write_text("{"), r"manifest\.json is not valid JSON"),
    "a list": (lambda folder: (folder / "manifest.json").write_text("[]"), r"manifest\.json is not an index of format"),
    "other format": (_manifest(lambda m: m.update(format=9)), r"manifest\.json is not an index of format 1"),
    "no rows": (_manifest(lambda m: m.pop("rows")), r"manifest\.json does not describe an index"),
    "no shards": (_manifest(lambda m: m.update(shards=[])), r"manifest\.json: the shards have 0 rows, not 12"),
    "shards of nothing": (_manifest(lambda m: m.update(shards=None)), r"manifest\.json does not describe an index"),
    "no name of a file": (
        _manifest(lambda m: m["shards"][0].update(file="a" * 300)),
        r"manifest\.json does not describe an index: .* the name of a file",
    ),
    "a gap": (_manifest(lambda m: m["shards"][0].update(start=1)), "the shards are not contiguous"),
    "too many rows": (
        _manifest(lambda m: m["shards"][0].update(stop=13)),
        "the shards are not contiguous",
    ),
    "too few rows": (_manifest(lambda m: m.update(rows=13)), r"manifest\.json: the shards have 12 rows, not 13"),
    "other width": (
        _manifest(lambda m: m.update(dim=17)),
        rf"{SHARD} contains vectors of shape \(12, 16\), not \(12, 17\)",
    ),
    "other tensor": (_replace_shard({"v": torch.zeros(12, 16)}), rf"{SHARD} contains no vectors"),
    "no tensors": (_replace_shard(b"nothing of the kind"), rf"{SHARD} cannot be read"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_reported_with_the_files_name(deployment: Deployment, tmp_path: Path, damage: str) -> None:
    do, message = DAMAGES[damage]
    shutil.copytree(deployment.index, tmp_path / "index")
    do(tmp_path / "index")
    with pytest.raises(RealmError, match=message) as raised:
        Generation.open(tmp_path / "index")
    assert str(tmp_path) in str(raised.value)


# ── What does not fit ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_index_of_another_block_embedder_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    other = tiny_model(tmp_path, seed=1)
    with pytest.raises(RealmError, match="built with another block embedder"):
        Engine.load(other, deployment.index, deployment.corpus)


def test_an_index_of_another_corpus_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    other = tiny_snapshot(tmp_path, {"Venus": "Venus is a planet."})
    with pytest.raises(RealmError, match=r"is of corpus snapshot .* build an index of this corpus"):
        Engine.load(deployment.model, deployment.index, other)


def test_a_model_with_another_reader_matches(deployment: Deployment) -> None:
    model = load_model(deployment.model)
    with torch.no_grad():
        model.reader.score.bias.add_(1)
    check_manifest_fits(model, Generation.open(deployment.index).manifest, Snapshot.open(deployment.corpus))


# ── Retrievers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_dense_retriever_finds_what_the_engine_finds(deployment: Deployment, engine: Engine) -> None:
    retriever = DenseRetriever(load_model(deployment.model), Generation.open(deployment.index))
    questions = ["Who was born in Warsaw?", "What has two moons?"]
    snapshot = Snapshot.open(deployment.corpus)
    for question, rows in zip(questions, retriever.rows(questions, 12), strict=True):
        # in half the precision, neighbours may change places
        found = [block.block_id for block in engine.retrieve(question, k=12).blocks]
        assert sorted(snapshot.block(row).block_id for row in rows) == sorted(found)
        assert len(set(rows[:6]) & {snapshot.row_of(block_id) for block_id in found[:6]}) >= 4


def test_the_sparse_retriever_finds_words_in_titles_and_texts(deployment: Deployment) -> None:
    snapshot = Snapshot.open(deployment.corpus)
    found = SparseRetriever(snapshot).rows(["When did the Berlin Wall fall?", "polonium", "the of"], 3)
    titles = [[snapshot.block(row).title for row in rows] for rows in found]
    assert titles[0][0] == "Berlin" and titles[1][0] == "Marie Curie"
    assert [len(rows) for rows in found] == [3, 3, 3]
    assert [len(rows) for rows in SparseRetriever(snapshot).rows(["Nile"], 100)] == [12]
