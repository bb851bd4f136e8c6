"""The builder's side of a refresh: killed and started again, and stopped by nothing that the trainer does."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from realm_core.errors import Stopped
from realm_core.files import remove_folder
from realm_core.index.build import build
from realm_core.index.generation import Generation
from realm_core.model.checkpoint import load_model, save_model
from realm_core.runs import kept
from realm_core.runs.activity import Activity
from realm_core.training import pretrain, refresh
from realm_core.training.distributed import place, places
from realm_core.training.live_index import newest_step, step_name
from realm_core.training.tasks import Refresh
from tests.core.processes import finish, start
from tests.core.running import Listening, activity_of
from tests.core.training.towns import QUIET, Towns
from tests.waiting import wait_until

CPU = torch.device("cpu")
# `python -m realm_core refresh` that does not give way to the other tests, which would take a minute.
EAGER = """
import sys
from realm_core.__main__ import main
from realm_core.training import refresh
refresh.lower_priority = lambda niceness: None
sys.exit(main())
"""


@pytest.fixture(autouse=True)
def _no_giving_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A builder in a thread would lower the priority of this process, and so of all later tests."""
    monkeypatch.setattr(refresh, "lower_priority", lambda niceness: None)


def write_snapshot(towns: Towns, run: Path, step: int) -> Path:
    """Parameters as a trainer writes them, others at each step."""
    loaded = load_model(towns.model)
    with torch.no_grad():
        loaded.block.norm.bias.add_(0.01 * step)
    folder = run / "snapshots" / step_name(step)
    save_model(replace(loaded, query=loaded.block, encoder=None), folder)
    return folder


def vectors(folder: Path) -> torch.Tensor:
    return Generation.open(folder).vectors_ND


# ── As a process ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(900)  # two processes are started, on a machine that may be busy
def test_a_builder_that_was_killed_is_started_again_and_goes_on(towns: Towns, tmp_path: Path) -> None:
    generations = tmp_path / "generations"
    command = ["refresh", "--trainer-run", str(tmp_path), "--corpus", str(towns.corpus), "--device", "cpu"]
    made = write_snapshot(towns, tmp_path, 4)
    partial = generations / f".{step_name(4)}.partial"

    killed = start(command, EAGER)
    wait_until(lambda: partial.exists() or newest_step(generations) == 4, killed)
    killed.kill()
    assert finish(killed)[0] == -signal.SIGKILL
    left_behind = generations / f".{step_name(2)}.partial"  # by one that was killed earlier
    left_behind.mkdir()

    stopped = start(command, EAGER)
    wait_until(lambda: newest_step(generations) == 4, stopped)
    first = Generation.open(generations / step_name(4))
    assert torch.equal(first.vectors_ND, vectors(build(made, towns.corpus, tmp_path, QUIET, device="cpu")))
    assert first.manifest["step"] == 4
    assert first.manifest["parameters_at"] == pytest.approx((made / "config.json").stat().st_mtime)
    write_snapshot(towns, tmp_path, 8)
    wait_until(lambda: newest_step(generations) == 8, stopped)
    assert not torch.equal(vectors(generations / step_name(8)), first.vectors_ND)
    stopped.send_signal(signal.SIGTERM)
    assert finish(stopped)[0] == 3
    assert not partial.exists() and not left_behind.exists()


# ── In a thread ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Builder(Listening):
    """Remembers what is said, and stops when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = threading.Event()

    def check(self) -> None:
        if self.stop.is_set():
            raise Stopped


@contextmanager
def building(towns: Towns, run: Path) -> Iterator[Builder]:
    """A builder; that it ends by being told to, and by nothing else, is checked at the end."""
    activity = Builder()
    arguments = Refresh(trainer_run=run, corpus=towns.corpus, device="cpu")
    ended: list[BaseException] = []

    def work() -> None:
        try:
            refresh.main(arguments, activity)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield activity
        assert thread.is_alive(), ended
    finally:
        activity.stop.set()
        thread.join()
    assert [type(error) for error in ended] == [Stopped]


def test_of_several_snapshots_the_newest_is_built(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generations = tmp_path / "generations"
    built: list[str] = []
    build = refresh.build_generation

    def noted(made: Path, *told: Any) -> Path:
        built.append(made.name)
        return build(made, *told)

    monkeypatch.setattr(refresh, "build_generation", noted)
    for step in (4, 8, 12):
        write_snapshot(towns, tmp_path, step)
    with building(towns, tmp_path):
        wait_until(lambda: newest_step(generations) == 12)
        write_snapshot(towns, tmp_path, 16)
        wait_until(lambda: newest_step(generations) == 16)
    assert built == [step_name(12), step_name(16)]


def test_a_builder_says_which_run_it_waits_for(towns: Towns, tmp_path: Path) -> None:
    with building(towns, tmp_path) as builder:
        wait_until(lambda: bool(builder.said))
    assert builder.said == [f"Waiting for a pre-training that runs with --run {tmp_path}."]


@pytest.mark.parametrize("training_ends", [True, False])
def test_a_builder_that_stops_behind_its_training_clears_up(towns: Towns, tmp_path: Path, training_ends: bool) -> None:
    """The training removes both folders when it ends; what is built meanwhile would bring the one back."""
    generations = tmp_path / "generations"
    write_snapshot(towns, tmp_path, 4)
    with building(towns, tmp_path):
        wait_until(lambda: newest_step(generations) == 4)
        if training_ends:
            remove_folder(tmp_path / "snapshots")
    assert generations.exists() is not training_ends


def test_a_snapshot_that_the_trainer_takes_back_is_let_go(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between seeing a snapshot and reading it, the trainer may have replaced it by a newer one."""
    generations = tmp_path / "generations"
    gone = threading.Event()

    def too_late(folder: Path) -> int | None:
        step = newest_step(folder)
        if step == 4:
            remove_folder(folder / step_name(4))
            gone.set()
        return step

    monkeypatch.setattr(refresh, "newest_step", too_late)
    write_snapshot(towns, tmp_path, 4)
    with building(towns, tmp_path) as activity:
        wait_until(gone.is_set)
        write_snapshot(towns, tmp_path, 8)
        wait_until(lambda: newest_step(generations) == 8)
    assert not any("Trying again" in message for message in activity.said)


def test_what_cannot_be_built_is_said_and_tried_again(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []
    build = refresh.build_generation

    def counted(made: Path, corpus: Path, generations: Path, step: int, *told: Any) -> Path:
        attempts.append(step)
        return build(made, corpus, generations, step, *told)

    monkeypatch.setattr(refresh, "build_generation", counted)
    made = write_snapshot(towns, tmp_path, 4)
    weights = made / "model.safetensors"
    sound = weights.read_bytes()
    weights.write_bytes(sound[:-1])
    with building(towns, tmp_path) as activity:
        wait_until(lambda: any("is damaged" in message for message in activity.said))
        assert str(weights) in activity.said[-1] and activity.said[-1].endswith("Trying again.")
        wait_until(lambda: len(attempts) > 2)
        assert len(activity.said) == 1
        weights.write_bytes(sound)
        wait_until(lambda: newest_step(tmp_path / "generations") == 4)


def test_pauses_between_attempts_grow_up_to_ten_seconds(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    pauses: list[float] = []
    monkeypatch.setattr(refresh, "build_generation", full)
    monkeypatch.setattr(refresh, "_pause", lambda seconds, _: (pauses.append(seconds), time.sleep(0.01)))
    write_snapshot(towns, tmp_path, 4)
    with building(towns, tmp_path) as activity:
        wait_until(lambda: len(pauses) > 8)
        assert len(activity.said) == 1 and "No space left on device" in activity.said[0]
        assert pauses[:2] == [0.2, 0.4] and max(pauses) == pauses[8] == 10
        write_snapshot(towns, tmp_path, 8)
        wait_until(lambda: 0.2 in pauses[2:])


# ── Kept alive by a trainer ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.nightly
@pytest.mark.timeout(900)  # a process is started, on a machine that may be busy
def test_what_a_builder_cannot_do_is_in_its_log_and_in_the_trainers(towns: Towns, tmp_path: Path) -> None:
    weights = write_snapshot(towns, tmp_path, 4) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    (tmp_path / "builder.log").write_text("error: of an earlier run\n")
    activity = Listening()
    with refresh.BuilderProcess(tmp_path, towns.corpus, CPU, activity):
        wait_until(lambda: bool(activity.said))
    wanted = f"{weights} is damaged: its checksum is not the one in config.json. Trying again."
    assert f"warning: {wanted}\n" in (tmp_path / "builder.log").read_text()
    assert activity.said == [f"The index is not being renewed: {wanted}"]


def test_a_builder_that_dies_is_told_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr(kept, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(refresh, "_POLL_S", 0.01)
    started: list[object] = []
    start_one = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: (started.append(a), start_one(*a, **k))[1])
    activity = Listening()
    with refresh.BuilderProcess(tmp_path, Path("/no"), CPU, activity):
        wait_until(lambda: len(started) > 3)
    assert activity.said == ["The index is not being renewed: its builder ended with status 1."]


def test_two_builders_do_not_harm_each_other(towns: Towns, tmp_path: Path) -> None:
    generations = tmp_path / "generations"
    with building(towns, tmp_path), building(towns, tmp_path):
        for step in (4, 8):
            made = write_snapshot(towns, tmp_path, step)
            wait_until(lambda step=step: newest_step(generations) == step)  # type: ignore[misc]
    wanted = build(made, towns.corpus, tmp_path, QUIET, device="cpu")
    assert torch.equal(vectors(generations / step_name(8)), vectors(wanted))


# ── Where it computes ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("trained_on", "processes", "gpus", "builds_on", "shared"),
    [
        ("cuda", 1, 1, "cuda:0", True),
        ("cuda", 1, 4, "cuda:1", False),
        ("cuda", 3, 4, "cuda:3", False),  # under torchrun, a GPU a process
        ("cuda", 4, 4, "cuda:0", True),
        ("cuda:0", 1, 2, "cuda:1", False),
        ("cuda:1", 1, 2, "cuda:0", False),
        ("cpu", 2, 1, "cuda:0", False),
        ("cpu", 1, 0, "cpu", True),
    ],
)
def test_a_builder_takes_a_gpu_that_no_process_of_the_training_has(
    monkeypatch: pytest.MonkeyPatch, trained_on: str, processes: int, gpus: int, builds_on: str, shared: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    activity = Listening()
    taken = places(torch.device(trained_on))
    assert refresh.builder_device("auto", taken, activity) == torch.device(builds_on)
    wanted = f"No GPU is free for the builder of the index: it computes on {builds_on}, as the training does."
    assert activity.said == ([wanted] if shared else [])
    for rank in range(processes):
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        assert (place(torch.device(trained_on)) == torch.device(builds_on)) <= shared
    assert refresh.builder_device("cpu", taken, activity) == CPU  # a device that is given is used


def test_a_pre_training_starts_its_builder_there(towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[torch.device] = []

    def started(run: Path, corpus: Path, device: torch.device, activity: Activity) -> None:
        given.append(device)
        raise Stopped

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(pretrain, "BuilderProcess", started)
    with pytest.raises(Stopped):
        activity_of("pretrain", towns.pretrain(tmp_path / "made", {"refresh": "process"}), run=tmp_path / "run")
    assert given == [torch.device("cuda:0")]  # the training computes on the processor
