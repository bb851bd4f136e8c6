"""The trainer's side of a refresh: the snapshots that it writes, the generations that it takes, and damage to both."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from realm_core.errors import RealmError
from realm_core.index.build import build
from realm_core.index.generation import Generation
from realm_core.model.checkpoint import Model, load_model, save_model
from realm_core.runs.activity import Activity
from realm_core.training import live_index, refresh
from realm_core.training.config import PretrainConfig
from realm_core.training.distributed import World
from realm_core.training.live_index import (
    BackgroundRefresh,
    FixedIndex,
    InLoopRefresh,
    LiveIndex,
    forget_after,
    known_snapshots,
    newest_step,
    step_name,
)
from realm_core.training.refresh import SnapshotLost, build_generation
from realm_core.training.stage import Stage
from tests.core.running import Listening
from tests.core.training.towns import QUIET, Towns
from tests.waiting import wait_until

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def first(towns: Towns) -> Generation:
    return Generation.open(towns.index)


@pytest.fixture
def model(towns: Towns) -> Model:
    loaded = load_model(towns.model)
    return replace(loaded, query=loaded.block)  # one embedder, as in pre-training


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".json")


def embedded(model: Model, towns: Towns, folder: Path) -> torch.Tensor:
    """The index that the present parameters make: [N, D]."""
    save_model(model, folder / "model")
    return Generation.open(build(folder / "model", towns.corpus, folder, QUIET, device="cpu")).vectors_ND


def move(model: Model) -> None:
    """A step of training."""
    with torch.no_grad():
        model.block.norm.bias.add_(0.1)


def within(run: Path, every: int, back: int = 1, activity: Activity = QUIET) -> tuple[PretrainConfig, Stage]:
    config = PretrainConfig(refresh_every=every, checkpoint_every=back)
    return config, Stage("pretrain", config, run / "made", run, activity, CPU, World())


@pytest.fixture
def in_loop(towns: Towns, first: Generation, model: Model, tmp_path: Path) -> Callable[..., InLoopRefresh]:
    def made(*, every: int = 4, back: int = 4) -> InLoopRefresh:
        def build(snapshot: Path, generations: Path, step: int) -> None:
            build_generation(snapshot, towns.corpus, generations, step, "cpu", QUIET)

        return InLoopRefresh(model, first, *within(tmp_path, every, back), build)

    return made


@pytest.fixture
def listening() -> Listening:
    return Listening()


def look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return when the thread that watches for generations has looked for one twice more, and seen what is there now."""
    looks: list[int | None] = []

    def noted(folder: Path) -> int | None:
        looks.append(newest_step(folder))
        return looks[-1]

    with monkeypatch.context() as patched:
        patched.setattr(live_index, "newest_step", noted)
        wait_until(lambda: len(looks) >= 3)  # by the third, it is through with what the first saw


@pytest.fixture
def handed_over(first: Generation, model: Model, tmp_path: Path, listening: Listening) -> Iterator[BackgroundRefresh]:
    made = BackgroundRefresh(model, first, *within(tmp_path, 4, activity=listening))
    yield made
    made.close()


# ── Folders ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_names_of_steps_sort_by_step() -> None:
    steps = [0, 1, 9, 10, 999, 1000, 200_000]
    assert sorted(map(step_name, reversed(steps))) == [step_name(step) for step in steps]


def test_the_newest_step_ignores_unfinished_folders(tmp_path: Path) -> None:
    assert newest_step(tmp_path) is None and newest_step(tmp_path / "nowhere") is None
    for name in (step_name(8), step_name(12), f".{step_name(16)}.tmp", f".{step_name(20)}.partial", "step-x"):
        (tmp_path / name).mkdir()
    assert newest_step(tmp_path) == 12


def test_folders_of_steps_after_the_last_checkpoint_are_removed(tmp_path: Path) -> None:
    for folder in ("snapshots", "generations"):
        for step in (4, 8, 12):
            (tmp_path / folder / step_name(step)).mkdir(parents=True)
    forget_after(tmp_path, 8)
    assert names(tmp_path / "snapshots") == names(tmp_path / "generations") == [step_name(4), step_name(8)]
    forget_after(tmp_path, 0)
    assert names(tmp_path / "snapshots") == names(tmp_path / "generations") == []


# ── FixedIndex and InLoopRefresh ──────────────────────────────────────────────────────────────────────────────────────


def test_without_refreshes_the_first_index_is_used_throughout(first: Generation, model: Model, tmp_path: Path) -> None:
    never = FixedIndex(model, first, *within(tmp_path, 1))
    assert len({never.before(step) for step in range(20)}) == 1
    assert (never.before(19).generation, never.before(19).step) == (first.name, 0)
    assert names(tmp_path / "snapshots") == names(tmp_path / "generations") == []


def test_the_first_index_is_as_old_as_the_run_however_often_it_was_killed(
    first: Generation, model: Model, tmp_path: Path
) -> None:
    def begin() -> float:
        return FixedIndex(model, first, *within(tmp_path, 1)).before(0).parameters_at

    began_at = begin()
    assert time.time() - 10 < began_at <= time.time()
    forget_after(tmp_path, 3)  # it goes on at a checkpoint
    assert begin() == began_at
    forget_after(tmp_path, 0)  # there is none: it begins again
    assert begin() > began_at


def test_in_the_loop_it_is_rebuilt_at_every_due_step(
    towns: Towns, first: Generation, model: Model, tmp_path: Path, in_loop: Callable[..., InLoopRefresh]
) -> None:
    index = in_loop()
    for step in range(4):
        assert index.before(step).generation == first.name
        move(model)
    for step in range(4, 10):
        before = time.time()
        taken = index.before(step)
        assert taken.step == step - step % 4 and taken.generation == step_name(taken.step)
        if step % 4 == 0:
            assert before - 1 < taken.parameters_at < time.time() + 1
            wanted = embedded(model, towns, tmp_path / f"wanted-{step}")
            torch.testing.assert_close(Generation.open(tmp_path / "generations" / taken.generation).vectors_ND, wanted)
            assert not torch.equal(wanted, first.vectors_ND)
        move(model)
    assert names(tmp_path / "snapshots") == [step_name(8)]  # only the newest is ever built from


def test_a_resumed_run_takes_the_index_it_used(
    model: Model, tmp_path: Path, in_loop: Callable[..., InLoopRefresh]
) -> None:
    in_loop().before(4)
    made = Generation.open(tmp_path / "generations" / step_name(4)).vectors_ND
    move(model)  # the checkpoint is of step 6
    resumed = in_loop()
    assert resumed.before(6).step == 4
    assert torch.equal(Generation.open(tmp_path / "generations" / step_name(4)).vectors_ND, made)
    assert resumed.before(8).step == 8
    with pytest.raises(RealmError, match=r"step-000000016 is gone; a run cannot be resumed without the index it used"):
        in_loop().before(18)


def test_indexes_are_kept_as_far_back_as_a_killed_run_may_go(
    tmp_path: Path, in_loop: Callable[..., InLoopRefresh]
) -> None:
    index = in_loop(every=2, back=5)
    for step in range(10):
        index.before(step)
        for back in range(min(step, 5) + 1):  # whichever checkpoint is the last
            used = (step - back) - (step - back) % 2
            assert used == 0 or (tmp_path / "generations" / step_name(used)).exists()
    kept = sorted(path.name for path in (tmp_path / "generations").glob("step-*"))
    assert kept == [step_name(2), step_name(4), step_name(6), step_name(8)]
    index.before(10)
    assert not (tmp_path / "generations" / step_name(2)).exists()


# ── Handed over ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_snapshots_are_whole_models_of_the_moment(model: Model, tmp_path: Path, handed_over: BackgroundRefresh) -> None:
    seen = []
    for step in range(10):
        handed_over.before(step)
        seen.append(names(tmp_path / "snapshots"))
        move(model)
    assert seen == [[]] * 4 + [[step_name(4)]] * 4 + [[step_name(8)]] * 2
    loaded = load_model(tmp_path / "snapshots" / step_name(8))
    moved = model.block.norm.bias - 0.2  # since step 8
    torch.testing.assert_close(loaded.block.norm.bias, moved)
    assert torch.equal(loaded.query.norm.bias, loaded.block.norm.bias) and loaded.encoder is None


def test_the_trainer_takes_the_newest_that_is_whole_and_waits_for_none(
    towns: Towns, model: Model, tmp_path: Path, handed_over: BackgroundRefresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    generations = tmp_path / "generations"
    assert [handed_over.before(step).step for step in range(4)] == [0] * 4
    assert handed_over.before(4).step == 0
    snapshot = tmp_path / "snapshots" / step_name(4)
    build_generation(snapshot, towns.corpus, tmp_path / "elsewhere", 4, "cpu", QUIET)
    half = generations / f".{step_name(4)}.partial"
    shutil.copytree(tmp_path / "elsewhere" / step_name(4), half)
    look_again(monkeypatch)
    assert handed_over.before(5).step == 0
    half.rename(generations / step_name(4))
    wait_until(lambda: handed_over.before(6).step == 4)
    taken = handed_over.before(6)
    assert taken.parameters_at == pytest.approx((snapshot / "config.json").stat().st_mtime)
    assert taken.blocks == 40
    assert handed_over.before(8) is taken
    build_generation(tmp_path / "snapshots" / step_name(8), towns.corpus, tmp_path / "elsewhere", 8, "cpu", QUIET)
    damaged = tmp_path / "elsewhere" / step_name(8) / "vectors-00000.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    shutil.move(tmp_path / "elsewhere" / step_name(8), generations)
    look_again(monkeypatch)
    assert handed_over.before(9) is handed_over.before(12) is taken
    build_generation(tmp_path / "snapshots" / step_name(12), towns.corpus, generations, 12, "cpu", QUIET)
    wait_until(lambda: handed_over.before(13).step == 12)
    wait_until(lambda: newest_step(generations) == 12 and len(list(generations.glob("step-*"))) == 1)


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 6.37 GiB."), RealmError("a shard is damaged.")],
)
def test_an_index_that_cannot_be_taken_is_told_of_once_and_taken_later(
    towns: Towns,
    model: Model,
    tmp_path: Path,
    handed_over: BackgroundRefresh,
    listening: Listening,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    tries, take = 0, BackgroundRefresh._open

    def later(self: BackgroundRefresh, step: int) -> LiveIndex:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise type(error)(f"{error} {tries} of them.")  # as the free bytes that a device tells of change
        return take(self, step)

    monkeypatch.setattr(BackgroundRefresh, "_open", later)
    handed_over.before(4)
    build_generation(tmp_path / "snapshots" / step_name(4), towns.corpus, tmp_path / "generations", 4, "cpu", QUIET)
    wait_until(lambda: handed_over.before(5).step == 4)
    assert tries == 3
    assert listening.warned == [
        f"The index of step 4 cannot be loaded: {error} 1 of them. Training continues with the previous one, and tries "
        "again."
    ]


def test_an_index_that_another_process_removed_meanwhile_is_not_told_of(
    towns: Towns,
    model: Model,
    tmp_path: Path,
    handed_over: BackgroundRefresh,
    listening: Listening,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = 0

    def gone(self: BackgroundRefresh, step: int) -> LiveIndex:
        nonlocal tries
        shutil.rmtree(tmp_path / "generations" / step_name(step))
        tries += 1
        raise RealmError("a shard is missing.")

    monkeypatch.setattr(BackgroundRefresh, "_open", gone)
    handed_over.before(4)
    build_generation(tmp_path / "snapshots" / step_name(4), towns.corpus, tmp_path / "generations", 4, "cpu", QUIET)
    wait_until(lambda: tries == 1)
    look_again(monkeypatch)
    assert (tries, listening.warned, handed_over.before(5).step) == (1, [], 0)


def test_a_generation_that_was_passed_over_is_never_taken(
    towns: Towns, model: Model, tmp_path: Path, handed_over: BackgroundRefresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step, folder in ((4, "elsewhere"), (8, "generations")):
        handed_over.before(step)
        build_generation(tmp_path / "snapshots" / step_name(step), towns.corpus, tmp_path / folder, step, "cpu", QUIET)
    wait_until(lambda: handed_over.before(9).step == 8)
    shutil.move(tmp_path / "elsewhere" / step_name(4), tmp_path / "generations")  # by a builder that slept
    look_again(monkeypatch)
    assert handed_over.before(10).step == 8


def test_a_generation_of_parameters_that_were_lost_is_never_taken(
    towns: Towns, first: Generation, model: Model, tmp_path: Path, handed_over: BackgroundRefresh
) -> None:
    handed_over.before(4)
    snapshot = tmp_path / "snapshots" / step_name(4)
    build_generation(snapshot, towns.corpus, tmp_path / "elsewhere", 4, "cpu", QUIET)
    handed_over.close()
    forget_after(tmp_path, 0)  # the trainer was killed before its first checkpoint
    move(model)
    resumed = BackgroundRefresh(model, first, *within(tmp_path, 4))
    try:
        lost = Path(shutil.move(tmp_path / "elsewhere" / step_name(4), tmp_path / "generations"))
        wait_until(lambda: not lost.exists())
        assert resumed.before(3).step == 0
        resumed.before(4)
        build_generation(snapshot, towns.corpus, tmp_path / "generations", 4, "cpu", QUIET)
        wait_until(lambda: resumed.before(5).step == 4)
    finally:
        resumed.close()
    wanted = embedded(model, towns, tmp_path / "wanted")
    assert torch.equal(Generation.open(tmp_path / "generations" / step_name(4)).vectors_ND, wanted)


def test_a_snapshot_that_is_forgotten_while_it_is_built_from_is_not_published(
    towns: Towns, model: Model, tmp_path: Path, handed_over: BackgroundRefresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_over.before(4)
    handed_over.before(8)  # the next snapshot alone takes nothing from the one before
    generations = tmp_path / "generations"
    build_at_once = refresh.build

    def late(*arguments: Any, before_publishing: Callable[[], None], **more: Any) -> Path:
        def check() -> None:
            forget_after(tmp_path, 7)
            before_publishing()

        return build_at_once(*arguments, before_publishing=check, **more)

    monkeypatch.setattr(refresh, "build", late)
    with pytest.raises(SnapshotLost, match="The trainer no longer has the parameters of step 8"):
        build_generation(tmp_path / "snapshots" / step_name(8), towns.corpus, generations, 8, "cpu", QUIET)
    assert newest_step(generations) is None
    assert list(known_snapshots(tmp_path / "snapshots")) == [step_name(4)]


def test_the_watcher_ends_with_the_training(first: Generation, model: Model, tmp_path: Path) -> None:
    made = BackgroundRefresh(model, first, *within(tmp_path, 4))
    assert "index watcher" in [thread.name for thread in threading.enumerate()]
    made.close()
    assert "index watcher" not in [thread.name for thread in threading.enumerate()]


# ── Beside training ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", ["in-loop", "handed over"])
def test_dropout_does_not_notice_a_refresh(
    way: str, in_loop: Callable[..., InLoopRefresh], handed_over: BackgroundRefresh, tmp_path: Path
) -> None:
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    (in_loop() if way == "in-loop" else handed_over).before(4)
    assert (tmp_path / "snapshots" / step_name(4)).exists()
    assert torch.equal(torch.rand(3), wanted)


def test_a_live_index_searches_exactly(first: Generation) -> None:
    index = LiveIndex(first, 3, 17.0, CPU)
    queries_BD = torch.randn(5, 16, generator=torch.Generator().manual_seed(1))
    rows_BK, scores_BK = index.search(queries_BD, 4)
    best = (queries_BD @ first.vectors_ND.float().T).topk(4)
    torch.testing.assert_close(scores_BK, best.values)
    assert rows_BK.shape == (5, 4) and index.blocks == 40 and (index.step, index.parameters_at) == (3, 17.0)
