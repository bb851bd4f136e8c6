"""Training and refreshing as two processes: killed at any instant, late, asleep or dead, neither harms the other."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch

from realm_core.errors import RealmError
from realm_core.files import read_json, sha256_of_file
from realm_core.index.generation import Generation
from realm_core.training import threads
from realm_core.training.live_index import BackgroundRefresh, LiveIndex, newest_step
from realm_core.training.threads import TrainerThreads, builder_threads, noted
from tests.core.processes import Process, finish, start
from tests.core.running import activity_of, metrics
from tests.core.training.towns import Towns
from tests.waiting import wait_until

CPU = torch.device("cpu")
SETTINGS: dict[str, Any] = {
    "batch": 2,
    "k": 3,
    "learning_rate": 1e-2,
    "warmup": 0.0,
    "dropout": 0.0,
    "holdout": 0.0,
    "checkpoint_every": 10,
    "refresh_every": 10,
}


# ── Killed ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def builder_of(trainer: Process) -> int | None:
    """The process that builds for a trainer."""
    for children in Path(f"/proc/{trainer.pid}/task").glob("*/children"):
        for child in children.read_text().split():
            if "refresh" in arguments_of(int(child)):
                return int(child)
    return None


def arguments_of(process: int) -> list[str]:
    """How a process was started; nothing where there is none (any more)."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text().split("\0")
    except OSError:
        return []


# `python -m realm_core` with steps as long as a larger model's: little is computed while a builder starts.
TRAINER = """
import time
from realm_core.__main__ import end, main
from realm_core.training.loop import Loop
show = Loop._show
Loop._show = lambda self, message: (time.sleep(0.03), show(self, message))
end(main())
"""


class Watch:
    """Looks at everything that is visible in a run folder as long as it is open: is it whole?"""

    def __init__(self, run: Path) -> None:
        self._run = run
        self.whole: set[str] = set()
        self.broken: list[str] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._closed.wait(0.02):
            for path in [*self._run.glob("snapshots/step-*"), *self._run.glob("generations/step-*")]:
                if path.parent.name + path.name not in self.whole:
                    self._check(path)

    def _check(self, path: Path) -> None:
        try:
            if path.parent.name == "generations":
                Generation.open(path)
            elif read_json(path / "config.json")["weights_sha256"] != sha256_of_file(path / "model.safetensors"):
                raise RealmError("damaged")
        except (RealmError, OSError) as error:
            time.sleep(0.5)
            if path.exists():  # else it was being removed
                self.broken.append(f"{path}: {error}")
        else:
            self.whole.add(path.parent.name + path.name)


@pytest.mark.timeout(900)  # processes are started, on a machine that may be busy
@pytest.mark.nightly  # test_pretrain.py kills a trainer, workers/test_parts.py a builder, too
@pytest.mark.parametrize("kills", [1, 4])
def test_killed_again_and_again_training_comes_to_its_end(towns: Towns, tmp_path: Path, kills: int) -> None:
    draw = random.Random(11)
    run = tmp_path / "run"

    def command(steps: int) -> list[str]:
        settings = SETTINGS | {"steps": steps, "refresh": "process"}
        return ["pretrain", *towns.pretrain(tmp_path / "made", settings), "--run", str(run)]

    def saved() -> int:
        return max((int(path.name.rpartition("-")[2]) for path in run.glob("pretrain/checkpoint-*")), default=0)

    def train_and_kill(built: int) -> int:
        """Until there is an index later than `built`; then both processes are killed. Returns the last index's step."""
        trainer = start(command(1_000_000), TRAINER)
        wait_until(lambda: (newest_step(run / "generations") or 0) > built, trainer)
        first = builder_of(trainer)
        assert first is not None
        time.sleep(draw.uniform(0, 0.3))
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: builder_of(trainer) not in (None, first), trainer)
        second = builder_of(trainer)
        assert second is not None
        time.sleep(draw.uniform(0, 0.3))
        built = newest_step(run / "generations") or 0
        trainer.kill()
        assert finish(trainer)[0] == -signal.SIGKILL
        wait_until(lambda: not arguments_of(second))  # though its parent died while it was starting
        return built

    watch = Watch(run)
    try:
        built = 0
        for _ in range(kills):
            before, built = built, train_and_kill(built)
            assert built > before and saved() > 0 and not (tmp_path / "made").exists()
        steps = saved() + 20
        last = start(command(steps))
        status, errors = finish(last)
        assert status == 0, errors
    finally:
        watch.close()
    assert watch.broken == [] and len(watch.whole) >= 2 + kills
    processes = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
    assert not any({"refresh", str(run)} <= set(arguments_of(process)) for process in processes)  # no builder is left
    losses = metrics(run, "pretrain.loss")
    assert max(losses) == steps and f"resuming at step {steps - 20:,} of {steps:,}" in errors
    assert min(losses) == 10 and mean(list(losses.values())[-3:]) < mean(list(losses.values())[:2])
    assert metrics(run, "pretrain.index_lag_steps")[steps] < steps - 10  # not the first index
    assert (tmp_path / "made" / "config.json").exists()
    assert sorted(path.name for path in run.iterdir()) == [
        "builder.log",
        "metrics.jsonl",
        "progress.json",
        "result.json",
        "task.json",
    ]


# ── Late, asleep, dead ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.nightly  # without a builder at all it goes on every day
@pytest.mark.timeout(900)  # a process is started, on a machine that may be busy
def test_the_trainer_goes_on_while_a_builder_elsewhere_sleeps(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = start(["refresh", "--trainer-run", str(tmp_path), "--corpus", str(towns.corpus), "--device", "cpu"])
    before = BackgroundRefresh.before
    used: dict[int, int] = {}

    def watched(self: BackgroundRefresh, step: int) -> LiveIndex:
        index = before(self, step)
        if step == 12:  # the index of step 10 arrives, and the builder falls asleep
            wait_until(lambda: before(self, step).step == 10, builder)
            builder.send_signal(signal.SIGSTOP)
        elif step == 45:  # it wakes up, and builds the newest
            builder.send_signal(signal.SIGCONT)
            wait_until(lambda: before(self, step).step == 40, builder)
        index = before(self, step)
        used[step] = index.step
        return index

    monkeypatch.setattr(BackgroundRefresh, "before", watched)
    try:
        settings = SETTINGS | {"steps": 50, "refresh": "elsewhere"}
        activity_of("pretrain", towns.pretrain(tmp_path / "made", settings), run=tmp_path)
    finally:
        builder.send_signal(signal.SIGCONT)
        builder.send_signal(signal.SIGTERM)
    assert finish(builder)[0] == 3
    assert [used[step] for step in (5, 12, 20, 30, 44, 45, 49)] == [0, 10, 10, 10, 10, 40, 40]
    lag = metrics(tmp_path, "pretrain.index_lag_steps")  # the mean over ten steps
    assert (lag[10], lag[30], lag[40], lag[50]) == (4.5, 14.5, 24.5, (5 * 32 + 5 * 7) / 10)
    lag_s = metrics(tmp_path, "pretrain.index_lag_s")
    assert 0 < lag_s[30] < lag_s[40]


@pytest.mark.parametrize("refresh", ["never", "elsewhere", "process"])
def test_the_trainer_goes_on_without_a_builder(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refresh: str
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")  # what a builder process would be started with
    settings = SETTINGS | {"steps": 20, "refresh": refresh}
    activity_of("pretrain", towns.pretrain(tmp_path / "made", settings), run=tmp_path / "run")
    assert metrics(tmp_path / "run", "pretrain.index_lag_steps") == {10: 4.5, 20: 14.5}
    assert (tmp_path / "made" / "config.json").exists()
    assert (tmp_path / "run" / "builder.log").exists() == (refresh == "process")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["path"] == str(tmp_path / "made")


# ── On one processor ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def eight() -> Iterator[None]:
    """This process has eight threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("has", [1, 2, 3, 8])
def test_trainer_and_builder_share_the_threads_of_a_processor(tmp_path: Path, eight: None, has: int) -> None:
    torch.set_num_threads(has)
    trainer = TrainerThreads(tmp_path, CPU)
    with noted(tmp_path, CPU):
        trainer.adjust()
        assert torch.get_num_threads() + builder_threads(has) == max(2, has)
        trainer.restore()
        assert torch.get_num_threads() == has


def test_the_trainer_takes_all_threads_when_the_builder_has_gone(tmp_path: Path, eight: None) -> None:
    trainer, used = TrainerThreads(tmp_path, CPU), []
    for builder in (nullcontext(), noted(tmp_path, CPU), nullcontext()):
        with builder:
            trainer.adjust()
            used.append(torch.get_num_threads())
    assert used == [8, 4, 8]


@pytest.mark.parametrize(("trains", "builds"), [("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda")])
def test_on_two_devices_none_is_in_the_way(tmp_path: Path, eight: None, trains: str, builds: str) -> None:
    with noted(tmp_path, torch.device(builds)):
        TrainerThreads(tmp_path, torch.device(trains)).adjust()
        assert torch.get_num_threads() == 8


def test_a_builder_on_another_machine_takes_no_threads(
    towns: Towns, tmp_path: Path, eight: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole training, whose builder is elsewhere and then on this machine."""
    used: dict[int, int] = {}
    before = BackgroundRefresh.before

    def watched(self: BackgroundRefresh, step: int) -> LiveIndex:
        if step == 2:
            with monkeypatch.context() as patch:
                patch.setattr(threads, "_machine", lambda: "another")
                builder.enter_context(noted(tmp_path / "generations", CPU))
        elif step == 4:
            builder.enter_context(noted(tmp_path / "generations", CPU))
        index = before(self, step)
        used[step] = torch.get_num_threads()
        return index

    monkeypatch.setattr(BackgroundRefresh, "before", watched)
    settings = SETTINGS | {"steps": 6, "refresh": "elsewhere", "refresh_every": 2}
    with ExitStack() as builder:
        activity_of("pretrain", towns.pretrain(tmp_path / "made", settings), run=tmp_path)
    assert [used[step] for step in (1, 3, 5)] == [8, 8, 4]
    assert torch.get_num_threads() == 8, "what comes after the training has all of them again"


def test_a_builder_on_a_processor_gives_way(towns: Towns, tmp_path: Path) -> None:
    builder = start(["refresh", "--trainer-run", str(tmp_path), "--corpus", str(towns.corpus), "--device", "cpu"])
    try:
        wait_until(lambda: os.getpriority(os.PRIO_PROCESS, builder.pid) > os.getpriority(os.PRIO_PROCESS, 0), builder)
    finally:
        builder.kill()  # to end in its own time it would wait for its turn
        finish(builder)
