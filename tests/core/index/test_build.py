"""Building an index: content, resuming after a kill, and errors."""

from __future__ import annotations

import fcntl
import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import read_json
from realm_core.index import build as build_module
from realm_core.index.approximate import open_approximate
from realm_core.index.build import build, build_shard
from realm_core.index.embedding import batches_by_length, embed, even_batches
from realm_core.index.generation import Generation
from realm_core.index.tasks import Index
from realm_core.model.checkpoint import load_model
from realm_core.runs.activity import Activity
from realm_core.text.joins import join_block, join_query
from realm_core.text.wordpieces import Wordpieces
from tests.core.conftest import Deployment
from tests.core.processes import finish, start
from tests.core.running import activity_of
from tests.tiny import ARTICLES, tiny_model, tiny_snapshot
from tests.waiting import wait_until

QUIET = Activity(quiet=True)


def rebuild(deployment: Deployment, output: Path, *, name: str | None = None, shard_rows: int = 50_000) -> Path:
    return build(deployment.model, deployment.corpus, output, QUIET, name=name, shard_rows=shard_rows, device="cpu")


# ── What is in it ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_row_is_the_vector_of_its_block(deployment: Deployment) -> None:
    snapshot, model = Snapshot.open(deployment.corpus), load_model(deployment.model)
    generation = Generation.open(deployment.index)
    assert generation.vectors_ND.shape == (len(snapshot), model.config.dimension) == (len(ARTICLES), 16)
    for row in range(len(snapshot)):
        block = snapshot.block(row)
        joined = join_block(Wordpieces.default(), [block.title], [block.text], model.config.block_wordpieces)
        alone = embed(model.block, joined)[0]
        # bfloat16 has eight bits, and vectors of unit variance are of length 4
        assert torch.dist(generation.vectors_ND[row].float(), alone) < 0.2
    assert len({tuple(vector.tolist()) for vector in generation.vectors_ND}) == len(snapshot)


def test_the_manifest_names_model_and_snapshot(deployment: Deployment) -> None:
    manifest = read_json(deployment.index / "manifest.json")
    model, snapshot = load_model(deployment.model), Snapshot.open(deployment.corpus)
    assert deployment.index.name == manifest["generation"] == f"{snapshot.snapshot_id}-{model.block_hash}"
    assert (manifest["snapshot_id"], manifest["model_hash"], manifest["block_hash"]) == (
        snapshot.snapshot_id,
        model.hash,
        model.block_hash,
    )
    assert sorted(path.name for path in deployment.index.iterdir()) == ["manifest.json", "vectors-00000.safetensors"]


@pytest.mark.parametrize("shard_rows", [1, 5, 12, 1000])
def test_shards_follow_one_another_and_hold_the_same_vectors(
    deployment: Deployment, tmp_path: Path, shard_rows: int
) -> None:
    folder = rebuild(deployment, tmp_path, shard_rows=shard_rows)
    manifest = read_json(folder / "manifest.json")
    bounds = [(shard["start"], shard["stop"]) for shard in manifest["shards"]]
    assert bounds == [(start, min(start + shard_rows, 12)) for start in range(0, 12, shard_rows)]
    assert load_file(folder / "vectors-00000.safetensors")["vectors"].dtype == torch.float16
    whole = Generation.open(deployment.index).vectors_ND.float()
    torch.testing.assert_close(Generation.open(folder).vectors_ND.float(), whole, rtol=0, atol=0.1)


@pytest.mark.parametrize("embedded_at_once", [1, 5])
def test_embedding_in_small_chunks_changes_nothing(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedded_at_once: int
) -> None:
    monkeypatch.setattr(build_module, "_CHUNK_ROWS", embedded_at_once)
    folder = rebuild(deployment, tmp_path)
    whole = Generation.open(deployment.index).vectors_ND.float()
    torch.testing.assert_close(Generation.open(folder).vectors_ND.float(), whole, rtol=0, atol=0.1)


@given(lengths=st.lists(st.integers(1, 50), max_size=40), budget=st.integers(1, 120))
def test_batches_contain_everything_once_within_their_budget(lengths: list[int], budget: int) -> None:
    groups = list(batches_by_length(lengths, budget))
    assert sorted(position for group in groups for position in group) == list(range(len(lengths)))
    assert all(len(group) == 1 or sum(lengths[i] for i in group) <= budget for group in groups)
    in_order = [lengths[i] for group in groups for i in group]
    assert in_order == sorted(lengths, reverse=True)


@given(lengths=st.lists(st.integers(1, 50), max_size=40), budget=st.integers(50, 200), at_once=st.integers(1, 4))
def test_even_batches_contain_everything_once_in_order(lengths: list[int], budget: int, at_once: int) -> None:
    groups = even_batches(lengths, budget, at_once)
    assert sorted(position for group in groups for position in group) == list(range(len(lengths)))
    assert all(groups)
    sums = [sum(lengths[i] for i in group) for group in groups]
    assert all(own <= budget + 2 * max(lengths) for own in sums)
    assert len(groups) <= at_once * math.ceil(sum(lengths) / (budget * at_once))
    assert all(max(earlier) < min(later) for earlier, later in zip(groups, groups[at_once:], strict=False))


def test_vectors_are_in_the_order_of_the_input(deployment: Deployment) -> None:
    model = load_model(deployment.model)
    questions = ["Who?", "What is the longest river of all the rivers in Africa and elsewhere?", "Where is Mars?"]
    joined = join_query(Wordpieces.default(), questions, 64)
    together = embed(model.query, joined)
    for sequence, vector in zip(joined, together, strict=True):
        torch.testing.assert_close(embed(model.query, [sequence])[0], vector, rtol=1e-4, atol=1e-4)


# ── Again, and after being stopped ──────────────────────────────────────────────────────────────────────────────────


def test_built_again_is_the_same_generation(deployment: Deployment) -> None:
    before = {path: path.stat().st_mtime_ns for path in deployment.index.iterdir()}
    assert rebuild(deployment, deployment.index.parent) == deployment.index
    assert {path: path.stat().st_mtime_ns for path in deployment.index.iterdir()} == before


def test_the_search_is_chosen_and_told(deployment: Deployment) -> None:
    manifest = read_json(deployment.index / "manifest.json")
    assert manifest["search"]["kind"] == "exact" and manifest["search"]["wanted"] == "auto"
    assert manifest["search"]["reason"] == f"exact: {manifest['rows']} blocks take 1 MB"


def test_another_search_takes_the_vectors_that_are_there(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = rebuild(deployment, tmp_path, shard_rows=5)
    with pytest.raises(RealmError, match=r"is searched by another way \(exact\); choose another name"):
        build(deployment.model, deployment.corpus, tmp_path, QUIET, search="ivf", device="cpu")

    def fail(*_: object) -> None:
        raise AssertionError("vectors were computed")

    monkeypatch.setattr(build_module, "_build_shards", fail)
    made = build(deployment.model, deployment.corpus, tmp_path, QUIET, name="mine", search="ivf", device="cpu")
    assert torch.equal(Generation.open(made).vectors_ND, Generation.open(first).vectors_ND)
    assert open_approximate(made) is not None and open_approximate(first) is None
    assert shard(deployment, tmp_path, 0, generation="new") > 0
    assert not (tmp_path / ".new.partial").exists(), "nothing was left to do"


def test_vectors_of_a_damaged_index_are_not_taken(deployment: Deployment, tmp_path: Path) -> None:
    first = rebuild(deployment, tmp_path)
    shard = first / "vectors-00000.safetensors"
    shard.write_bytes(shard.read_bytes()[::-1])
    made = rebuild(deployment, tmp_path, name="mine")
    assert torch.equal(Generation.open(made).vectors_ND, Generation.open(deployment.index).vectors_ND)


@pytest.mark.timeout(900)  # two processes are started, on a machine that may be busy
def test_interrupted_builds_resume_to_the_same_bytes(deployment: Deployment, tmp_path: Path) -> None:
    corpus = tiny_snapshot(tmp_path, {f"Place {i}": f"Place {i} is a town of {i * 37} people." for i in range(150)})
    indexes, partial = tmp_path / "indexes", tmp_path / "indexes" / ".one.partial"
    arguments = ["index", "--model", str(deployment.model), "--corpus", str(corpus), "--output", str(indexes)]
    arguments += ["--generation", "one", "--shard-rows", "1", "--device", "cpu"]

    def shards() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in partial.glob("vectors-*.safetensors")}

    killed = start(arguments)
    wait_until(lambda: len(shards()) >= 4, killed)
    os.kill(killed.pid, signal.SIGSTOP)
    with pytest.raises(RealmError, match="The index one is being built by another process already"):
        build(deployment.model, corpus, indexes, QUIET, name="one")
    killed.kill()
    assert finish(killed)[0] == -signal.SIGKILL
    after_kill = shards()
    assert 4 <= len(after_kill) < 150 and not (indexes / "one").exists()

    stopped = start(arguments)
    wait_until(lambda: len(shards()) >= len(after_kill) + 3, stopped)
    stopped.send_signal(signal.SIGTERM)
    status, errors = finish(stopped)
    assert (status, "Stopped" in errors) == (3, True)
    after_stop = shards()
    assert len(after_kill) < len(after_stop) < 150 and not (indexes / "one").exists()
    assert after_stop.items() >= after_kill.items()  # nothing was done twice

    (partial / "vectors-00001.safetensors").write_bytes(b"")  # as a power cut may leave it
    one, two = (
        build(deployment.model, corpus, indexes, QUIET, name=name, shard_rows=1, device="cpu")
        for name in ("one", "two")
    )
    assert not partial.exists()
    files = sorted(path.name for path in one.glob("vectors-*"))
    assert len(files) == 150
    assert all((one / name).read_bytes() == (two / name).read_bytes() for name in files)
    assert (one / "vectors-00003.safetensors").stat().st_mtime_ns == after_kill["vectors-00003.safetensors"]


def test_what_a_shard_has_so_far_is_kept(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_module, "_PIECE_ROWS", 3)
    monkeypatch.setattr(build_module, "_CHUNK_ROWS", 2)
    whole = Generation.open(rebuild(deployment, tmp_path / "whole")).vectors_ND
    starts: list[int] = []
    embed_rows = build_module._ShardEmbedder._embed

    def dies_in_the_third_piece(self: Any, low: int, high: int) -> torch.Tensor:
        starts.append(low)
        if starts == [0, 2, 3, 5, 6]:
            raise RuntimeError("killed")
        return embed_rows(self, low, high)

    monkeypatch.setattr(build_module._ShardEmbedder, "_embed", dies_in_the_third_piece)
    with pytest.raises(RuntimeError, match="killed"):
        rebuild(deployment, tmp_path / "killed")
    [partial] = (tmp_path / "killed").glob(".*.partial")
    assert len(list(partial.glob(".vectors-00000-*"))) == 2
    (partial / ".vectors-00000-3.safetensors").write_bytes(b"")  # as a power cut may leave it
    starts.clear()
    resumed = rebuild(deployment, tmp_path / "killed")
    assert starts == [3, 5, 6, 8, 9, 11], "the first piece is not embedded again"
    assert torch.equal(Generation.open(resumed).vectors_ND, whole)
    assert sorted(path.name for path in resumed.iterdir()) == ["manifest.json", "vectors-00000.safetensors"]


def test_a_partial_build_of_another_model_is_discarded(deployment: Deployment, tmp_path: Path) -> None:
    partial = tmp_path / ".mine.partial"
    partial.mkdir()
    (partial / "identity.json").write_text('{"block_hash": "another"}')
    (partial / "vectors-00000.safetensors").write_bytes(b"of another model")
    folder = rebuild(deployment, tmp_path, name="mine")
    whole = Generation.open(deployment.index).vectors_ND
    assert torch.equal(Generation.open(folder).vectors_ND, whole)


# ── Shard by shard ──────────────────────────────────────────────────────────────────────────────────────────────────


def shard(deployment: Deployment, output: Path, number: int, **changed: Any) -> int:
    told = {"generation": "mine", "shard": number, "shard_rows": 5, "device": "cpu", **changed}
    return build_shard(Index(model=deployment.model, corpus=deployment.corpus, output=output, **told), QUIET)


def test_separately_built_shards_are_published_by_the_build(deployment: Deployment, tmp_path: Path) -> None:
    assert [shard(deployment, tmp_path, number) for number in (2, 0)] == [2, 5]
    partial = tmp_path / ".mine.partial"
    made = {path.name: path.stat().st_mtime_ns for path in partial.glob("vectors-*")}
    assert sorted(made) == ["vectors-00000.safetensors", "vectors-00002.safetensors"]
    folder = rebuild(deployment, tmp_path, name="mine", shard_rows=5)
    files = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert files.items() >= made.items() and len(files) == 4  # with the manifest and the shard that was missing
    whole = Generation.open(deployment.index).vectors_ND.float()
    torch.testing.assert_close(Generation.open(folder).vectors_ND.float(), whole, rtol=0, atol=0.1)
    assert shard(deployment, tmp_path, 1) == 5  # published already
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mine.lock", "mine"]


def test_shards_are_built_concurrently_but_not_twice(deployment: Deployment, tmp_path: Path) -> None:
    shard(deployment, tmp_path, 0)
    with open(tmp_path / ".mine.lock") as others, open(tmp_path / ".mine.partial" / ".00001.lock", "w") as same:
        fcntl.flock(others, fcntl.LOCK_SH)  # another builds a shard
        fcntl.flock(same, fcntl.LOCK_EX)  # this one
        assert shard(deployment, tmp_path, 2) == 2
        with pytest.raises(RealmError, match="Shard 1 of mine is being built by another process already"):
            shard(deployment, tmp_path, 1)
        with pytest.raises(RealmError, match="The index mine is being built by another process already"):
            rebuild(deployment, tmp_path, name="mine", shard_rows=5)
        fcntl.flock(others, fcntl.LOCK_EX)  # another publishes
        with pytest.raises(RealmError, match="The index mine is being built by another process already"):
            shard(deployment, tmp_path, 2)


def test_concurrent_shards_share_the_partial_folder(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def late(made: Path, partial: Path) -> None:
        monkeypatch.setattr(os, "rename", rename)
        shard(deployment, tmp_path, 1)  # the other was quicker
        rename(made, partial)

    monkeypatch.setattr(os, "rename", late)
    assert shard(deployment, tmp_path, 0) == 5
    assert sorted(path.name for path in (tmp_path / ".mine.partial").glob("vectors-*")) == [
        "vectors-00000.safetensors",
        "vectors-00001.safetensors",
    ]
    assert [path.name for path in tmp_path.glob(".mine.partial*")] == [".mine.partial"]


def test_a_shard_out_of_range_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="The index mine has the shards 0 to 2, not 3"):
        shard(deployment, tmp_path, 3)


def test_a_shard_of_another_model_leaves_the_partial_folder_alone(deployment: Deployment, tmp_path: Path) -> None:
    shard(deployment, tmp_path, 0)
    with pytest.raises(RealmError, match=r"\.mine\.partial belongs to another model or corpus"):
        shard(deployment, tmp_path, 0, shard_rows=4)
    assert (tmp_path / ".mine.partial" / "vectors-00000.safetensors").exists()


def test_a_shard_on_the_command_line(deployment: Deployment, tmp_path: Path) -> None:
    told = ["--model", deployment.model, "--corpus", deployment.corpus, "--output", tmp_path / "out", "--shard", 1]
    with pytest.raises(RealmError, match="--shard needs --generation"):
        activity_of("index", told)
    activity_of("index", [*told, "--generation", "mine", "--shard-rows", 7, "--device", "cpu"], run=tmp_path / "run")
    assert read_json(tmp_path / "run" / "result.json") == {"generation": "mine", "shard": 1, "rows": 5}
    progress = read_json(tmp_path / "run" / "progress.json")
    assert (progress["done"], progress["total"]) == (5, 5)


def test_embedding_begins_a_count_of_its_own(deployment: Deployment, tmp_path: Path) -> None:
    """Otherwise the page says “100 %, all blocks tokenised” until the first blocks are embedded."""
    embedded = embedded_while_built(deployment, tmp_path)
    blocks = embedded[-1][1]
    assert embedded[0] == (0, blocks) and embedded[-1] == (blocks, blocks)


def test_embedding_counts_what_parts_have_built(deployment: Deployment, tmp_path: Path) -> None:
    """Otherwise the page of a job whose shards are there says 0 %."""
    for number in (0, 2):
        shard(deployment, tmp_path, number)
    assert embedded_while_built(deployment, tmp_path, shard_rows=5)[0] == (7, len(ARTICLES))


def embedded_while_built(deployment: Deployment, output: Path, **more: Any) -> list[tuple[int, int | None]]:
    """(done, total) of each report on embedded blocks."""
    told: list[tuple[int, int | None]] = []

    class Listening(Activity):
        def progress(self, done: int, total: int | None, unit: str, message: str = "") -> None:
            if unit == "blocks":
                told.append((done, total))

    build(deployment.model, deployment.corpus, output, Listening(quiet=True), name="mine", device="cpu", **more)
    return told


# ── What it refuses ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_name_of_another_index_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    rebuild(deployment, tmp_path, name="mine")
    other = tiny_model(tmp_path, seed=1)
    with pytest.raises(RealmError, match=r"mine exists and belongs to another model or corpus"):
        build(other, deployment.corpus, tmp_path, QUIET, name="mine")


@pytest.mark.parametrize("name", ["../escaped", ".hidden", "a/b"])
def test_an_invalid_name_is_refused(deployment: Deployment, tmp_path: Path, name: str) -> None:
    with pytest.raises(RealmError, match="cannot be a generation's name"):
        rebuild(deployment, tmp_path / "indexes", name=name)
    assert not (tmp_path / "escaped").exists()


def test_shards_of_no_rows_are_refused(deployment: Deployment, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="shard-rows must be at least 1, not 0"):
        rebuild(deployment, tmp_path, shard_rows=0)


def test_a_full_disk_is_reported_and_nothing_published(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(tensors: object, path: Path) -> None:
        raise Exception("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("realm_core.tensors.save_file", full)
    with pytest.raises(RealmError, match=r"disk that holds .* is full"):
        rebuild(deployment, tmp_path, name="mine")
    assert not (tmp_path / "mine").exists()
