"""Approximate search against exact search; builds that are killed; what is chosen, and why."""

from __future__ import annotations

import errno
import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realm_core.errors import RealmError, Stopped
from realm_core.files import read_json, sha256_of_file, write_json
from realm_core.index import allowed_rows, approximate_build, choice
from realm_core.index.allowed_rows import AllowedRows
from realm_core.index.approximate import INDEX_FILE, LISTS_FILE, ApproximateSearch, open_approximate
from realm_core.index.approximate_build import WORK_FOLDER, build_search, end_build
from realm_core.index.choice import SearchChoice, choose, search_of
from realm_core.index.manifest import verify
from realm_core.index.search import ExactSearch, search_without
from realm_core.runs.activity import Activity
from realm_core.tensors import save_tensors
from tests.core import processes
from tests.core.running import Stopping

QUIET = Activity(quiet=True)
D = 16


def drawn(rows: int, *, seed: int = 0) -> torch.Tensor:
    """Vectors around a few centres, as blocks about the same things are."""
    draw = torch.Generator().manual_seed(seed)
    centres = torch.randn(40, D, generator=torch.Generator().manual_seed(99))
    near = centres[torch.randint(40, (rows,), generator=draw)]
    return torch.nn.functional.normalize(near + 0.5 * torch.randn(rows, D, generator=draw)).half()


def written(folder: Path, vectors_ND: torch.Tensor, shard_rows: int) -> list[dict[str, Any]]:
    """Shards of an unpublished generation."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for number, start in enumerate(range(0, len(vectors_ND), shard_rows)):
        part = vectors_ND[start : start + shard_rows].contiguous()
        path = folder / f"vectors-{number:05d}.safetensors"
        save_tensors(path, {"vectors": part})
        shards.append({"file": path.name, "start": start, "stop": start + len(part), "sha256": sha256_of_file(path)})
    return shards


def generation(folder: Path, vectors_ND: torch.Tensor, shard_rows: int, **more: Any) -> Path:
    """A generation with its stored search."""
    shards = written(folder, vectors_ND, shard_rows)
    entry = build_search(folder, shards, vectors_ND.shape[1], QUIET, **{"wanted": "ivf", **more})
    told = {"format": 1, "generation": folder.name, "rows": len(vectors_ND), "dim": vectors_ND.shape[1]}
    write_json(folder / "manifest.json", {**told, "shards": shards, "search": entry}, sealed=True)
    end_build(folder)
    return folder


def opened(folder: Path) -> ApproximateSearch:
    search = open_approximate(folder, "ivf")
    assert search is not None
    return search


def recall(found: torch.Tensor, wanted: torch.Tensor) -> float:
    hits = [len(set(a) & set(b)) for a, b in zip(found.tolist(), wanted.tolist(), strict=True)]
    return sum(hits) / wanted.numel() if wanted.numel() else 1.0


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.Tensor]:
    """20,000 vectors in shards and parts of different sizes."""
    vectors_ND = drawn(20_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "_PROBED_ROWS", 5_000)
        patch.setattr(approximate_build, "_PART_ROWS", 6_000)
        patch.setattr(approximate_build, "_PIECE_ROWS", 700)
        return generation(tmp_path_factory.mktemp("large") / "g", vectors_ND, 7_000), vectors_ND


# ── What is found ───────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 400), k=st.integers(1, 500), batch=st.integers(0, 3), seed=st.integers(0, 50))
def test_as_many_rows_as_exact_search_finds_with_its_scores(
    tmp_path_factory: pytest.TempPathFactory, rows: int, k: int, batch: int, seed: int
) -> None:
    vectors_ND, queries_BD = drawn(rows, seed=seed), drawn(batch, seed=seed + 1).float()
    search = opened(generation(tmp_path_factory.mktemp("drawn") / "g", vectors_ND, 90))
    found, scores = search.search(queries_BD, k)
    assert found.shape == scores.shape == (batch, min(k, rows))
    assert all(len(set(own)) == len(own) for own in found.tolist())
    torch.testing.assert_close(scores, (queries_BD @ vectors_ND.float().T).gather(1, found))
    for own, row_scores in zip(found.tolist(), scores.tolist(), strict=True):
        assert own == [row for _, row in sorted(zip([-s for s in row_scores], own, strict=True))]
    if k * search.choice.candidates >= rows:  # then every row is scored
        assert recall(found, ExactSearch(vectors_ND).search(queries_BD, k)[0]) == 1


def test_of_its_best_rows_hardly_any_is_missed(large: tuple[Path, torch.Tensor]) -> None:
    folder, vectors_ND = large
    queries_BD = drawn(100, seed=7).float()
    search = opened(folder)
    assert 1 < search.choice.probes < search.choice.lists, "or else everything would be looked at"
    found, scores = search.search(queries_BD, 5)
    exact, exact_scores = ExactSearch(vectors_ND).search(queries_BD, 5)
    assert recall(found, exact) >= 0.98
    same = found == exact
    torch.testing.assert_close(scores[same], exact_scores[same])


def test_a_graph_over_the_centroids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_GRAPH_LISTS", 16)
    vectors_ND, queries_BD = drawn(5_000), drawn(50, seed=7).float()
    search = opened(generation(tmp_path / "g", vectors_ND, 5_000))
    exact, _ = ExactSearch(vectors_ND).search(queries_BD, 5)
    assert recall(search.search(queries_BD, 5)[0], exact) >= 0.98


@pytest.mark.parametrize("share", [0.001, 0.05, 0.5, 0.999])
def test_only_rows_that_are_allowed(
    large: tuple[Path, torch.Tensor], monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    folder, vectors_ND = large
    mask_N = torch.rand(len(vectors_ND), generator=torch.Generator().manual_seed(3)) < share
    queries_BD, allowed = drawn(40, seed=8).float(), mask_N.nonzero().flatten()
    with monkeypatch.context() as patch:
        patch.setattr(allowed_rows, "_FEW_ROWS", 0)
        only = AllowedRows(mask_N, torch.device("cpu"))
    for k in (5, 50):
        found, scores = opened(folder).search(queries_BD, k, only)
        assert found.shape == (40, min(k, len(allowed))) and mask_N[found].all()
        places, _ = ExactSearch(vectors_ND[allowed]).search(queries_BD, k)
        assert recall(found, allowed[places]) >= 0.97
        torch.testing.assert_close(scores, (queries_BD @ vectors_ND.float().T).gather(1, found))
    few = allowed[:30]
    few_N = torch.isin(torch.arange(len(mask_N)), few)
    found, scores = opened(folder).search(queries_BD, 7, AllowedRows(few_N, torch.device("cpu")))
    places, exact_scores = ExactSearch(vectors_ND[few]).search(queries_BD, 7)
    assert found.tolist() == few[places].tolist()
    torch.testing.assert_close(scores, exact_scores)


def test_excluded_rows_make_room_for_others(large: tuple[Path, torch.Tensor]) -> None:
    folder, vectors_ND = large
    query = drawn(1, seed=7).float()
    best = ExactSearch(vectors_ND).search(query, 10)[0][0].tolist()
    [(rows, _)] = search_without(opened(folder).search, query, [5], [set(best[:5])])
    assert rows == best[5:]


def test_it_answers_although_its_files_were_removed(tmp_path: Path) -> None:
    folder, queries_BD = generation(tmp_path / "g", drawn(300), 100), drawn(2, seed=7).float()
    search = opened(folder)
    before = search.search(queries_BD, 5)[0].tolist()
    for path in folder.iterdir():
        path.unlink()
    assert search.search(queries_BD, 5)[0].tolist() == before


# ── Builds that end early ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_stopped_build_goes_on_and_ends_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate_build, "_PART_ROWS", 500)
    monkeypatch.setattr(approximate_build, "_PART_ROWS_PER_LIST", 1)
    vectors_ND, queries_BD = drawn(2_000), drawn(20, seed=7).float()
    whole = opened(generation(tmp_path / "whole", vectors_ND, 600)).search(queries_BD, 9)
    shards = written(tmp_path / "g", vectors_ND, 600)
    for at in itertools.count():  # stopped at each place once, from the first on
        try:
            build_search(tmp_path / "g", shards, D, Stopping(at), wanted="ivf")
            break
        except Stopped:
            assert not (tmp_path / "g" / INDEX_FILE).exists()
    assert at >= 9, "or else there were hardly any places"
    end_build(tmp_path / "g")
    assert not (tmp_path / "g" / WORK_FOLDER).exists()
    rows, scores = opened(generation(tmp_path / "g", vectors_ND, 600)).search(queries_BD, 9)
    assert rows.tolist() == whole[0].tolist() and scores.tolist() == whole[1].tolist()


KILLED = """
import os, signal, sys
from pathlib import Path
from realm_core.index import approximate_build as build
from realm_core.files import read_json
from realm_core.runs.activity import Activity
build._PART_ROWS = build._PART_ROWS_PER_LIST = 400
real, left = os.replace, int(sys.argv[2])
def replace(*paths):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*paths)
os.replace = replace
folder = Path(sys.argv[1])
build.build_search(folder, read_json(folder / "shards.json"), 16, Activity(quiet=True), wanted="ivf")
"""


def test_a_killed_build_goes_on_wherever_it_was_killed(tmp_path: Path) -> None:
    vectors_ND, queries_BD = drawn(1_000), drawn(20, seed=7).float()
    write_json(tmp_path / "shards.json", written(tmp_path, vectors_ND, 600))
    killed = 0
    for left in (2, 12, 2, 2, 1, 2, 3):  # files that appear before it is killed
        status, errors = processes.finish(processes.start([str(tmp_path), str(left)], KILLED))
        if status == 0:
            break
        assert status == -9, errors
        killed += 1
    assert killed >= 5
    search = opened(generation(tmp_path, vectors_ND, 600))
    exact, exact_scores = ExactSearch(vectors_ND).search(queries_BD, 5)
    found, scores = search.search(queries_BD, 5)
    assert recall(found, exact) >= 0.98
    torch.testing.assert_close(scores[found == exact], exact_scores[found == exact])


def test_a_build_that_ends_before_its_manifest_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = written(tmp_path / "g", drawn(600), 600)

    def cut(_: Path) -> str:
        raise Stopped

    with monkeypatch.context() as patched, pytest.raises(Stopped):
        patched.setattr(approximate_build, "sha256_of_file", cut)
        build_search(tmp_path / "g", shards, D, QUIET, wanted="ivf")
    made = (tmp_path / "g" / INDEX_FILE).stat().st_mtime_ns
    entry = build_search(tmp_path / "g", shards, D, QUIET, wanted="ivf")
    assert len(entry["files"]) == 3 and (tmp_path / "g" / INDEX_FILE).stat().st_mtime_ns == made


def test_a_build_that_has_become_exact_leaves_nothing(tmp_path: Path) -> None:
    shards = written(tmp_path / "g", drawn(600), 600)
    build_search(tmp_path / "g", shards, D, QUIET, wanted="ivf")
    build_search(tmp_path / "g", shards, D, QUIET, wanted="exact")
    assert [path.name for path in (tmp_path / "g").iterdir()] == [shard["file"] for shard in shards]


def test_another_choice_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that goes on may have less memory than the one that began; with smaller codes it finds them, too."""
    vectors_ND, queries_BD = drawn(17_000), drawn(50, seed=7).float()
    shards = written(tmp_path / "g", vectors_ND, 9_000)
    with pytest.raises(Stopped):
        build_search(tmp_path / "g", shards, D, Stopping(12), wanted="ivf")
    monkeypatch.setattr(choice, "machine_memory_bytes", lambda: 200_000)
    search = opened(generation(tmp_path / "g", vectors_ND, 9_000))
    assert search.choice.code == "PQ4"
    exact, _ = ExactSearch(vectors_ND).search(queries_BD, 5)
    assert recall(search.search(queries_BD, 5)[0], exact) >= 0.98


def test_a_disk_without_room_for_the_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 100})())
    with pytest.raises(RealmError, match="has no room for lists of 2,400 bytes"):
        generation(tmp_path / "g", drawn(100), 100)


# ── Damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [INDEX_FILE, LISTS_FILE, "vectors-00001.safetensors"])
def test_damage_is_told_by_name(tmp_path: Path, name: str) -> None:
    folder = generation(tmp_path / "g", drawn(300), 100)
    data = bytearray((folder / name).read_bytes())
    data[-1] ^= 1
    (folder / name).write_bytes(data)
    for check in (opened, verify):
        with pytest.raises(RealmError, match=f"{name} is damaged"):
            check(folder)
    (folder / name).unlink()
    with pytest.raises(RealmError, match=f"{name} does not exist"):
        opened(folder)


def test_more_shards_than_files_that_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = generation(tmp_path / "g", drawn(300), 100)

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("realm_core.index.stored_rows.os.open", refuse)
    with pytest.raises(RealmError, match=r"Too many open files\. .* each of its 3 shards \(ulimit -n\)"):
        opened(folder)


def test_a_file_that_was_cut_off_meanwhile(tmp_path: Path) -> None:
    folder = generation(tmp_path / "g", drawn(300), 300)
    search = opened(folder)
    os.truncate(folder / "vectors-00000.safetensors", 200)
    with pytest.raises(RealmError, match="shorter than it was"):
        search.search(drawn(1, seed=7).float(), 300)


def test_a_manifest_that_tells_nonsense(tmp_path: Path) -> None:
    folder = generation(tmp_path / "g", drawn(100), 100)
    manifest = read_json(folder / "manifest.json")
    for search in ({"kind": "ivf"}, {**manifest["search"], "more": 1}, "ivf", {**manifest["search"], "files": None}):
        (folder / "manifest.json").write_text(json.dumps({**manifest, "search": search}))
        with pytest.raises(RealmError, match="does not describe an index"):
            opened(folder)


# ── What is chosen ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rows", "memory", "wanted", "reason"),
    [
        (10_033, 24e9, "auto", "exact: 10,033 blocks take 10 MB"),
        (1_000_000, 4e9, "auto", "exact: 1,000,000 blocks take 1 GB"),
        (
            1_000_001,
            24e9,
            "auto",
            "IVF2048,SQ8: 1,000,001 blocks are more than the 1,000,000 that are searched exactly",
        ),
        (900_000, 1.5e9, "auto", "IVF2048,SQ8: 900,000 blocks would take 922 MB exactly, of 1.5 GB"),
        (13_000_000, 6e9, "auto", "IVF8192,SQ8: 13,000,000 blocks would take 13.3 GB exactly, of 6 GB"),
        (13_000_000, 4e9, "auto", "IVF8192,PQ64: 13,000,000 blocks would take 13.3 GB exactly, of 4 GB"),
        (13_000_000, 6e9, "exact", "exact, as it was set: 13,000,000 blocks take 13.3 GB"),
        (10_033, 24e9, "ivf", "IVF256,SQ8, as it was set: 10,033 blocks would take 10 MB exactly"),
    ],
)
def test_the_reason_is_a_sentence(rows: int, memory: float, wanted: choice.SearchKind, reason: str) -> None:
    chosen = choose(rows, 256, wanted, memory_bytes=int(memory))
    assert chosen.reason == reason and chosen.kind == ("exact" if reason.startswith("exact") else "ivf")


@given(rows=st.integers(1, 10**10), dimension=st.integers(1, 1024), memory=st.integers(1, 10**13))
def test_every_choice_can_be_built(rows: int, dimension: int, memory: int) -> None:
    chosen = choose(rows, dimension, "ivf", memory_bytes=memory)
    assert 1 <= chosen.probes <= chosen.lists and (chosen.lists == 1 or rows / chosen.lists >= 39)
    if chosen.code != "SQ8":
        assert rows >= 256 and dimension % int(chosen.code[2:]) == 0


def test_memory_is_what_the_container_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = choice.machine_memory_bytes()
    assert whole > 1 << 28
    monkeypatch.setattr(choice, "_CGROUP", tmp_path / "memory.max")
    for told, memory in (("max\n", None), ("1000000\n", 1_000_000), (f"{1 << 60}\n", None)):
        (tmp_path / "memory.max").write_text(told)
        monkeypatch.setattr(choice, "_CGROUP", tmp_path / "memory.max")
        assert choice.machine_memory_bytes() >= whole if memory is None else choice.machine_memory_bytes() == memory


def test_what_is_opened_goes_by_the_manifest_unless_it_is_said(tmp_path: Path) -> None:
    stored, plain = (
        generation(tmp_path / "a", drawn(100), 100),
        generation(tmp_path / "b", drawn(100), 100, wanted="auto"),
    )
    assert open_approximate(stored) is not None and open_approximate(stored, "exact") is None
    assert open_approximate(plain) is None and not (plain / INDEX_FILE).exists()
    with pytest.raises(RealmError, match="The index b has no approximate search; build one with --search ivf"):
        open_approximate(plain, "ivf")


def test_a_generation_from_before_there_was_a_choice_is_searched_exactly(tmp_path: Path) -> None:
    reason = "exact: 10,033 blocks take 10 MB"
    assert search_of({"rows": 10_033, "dim": 256}) == SearchChoice("exact", reason, "auto")
