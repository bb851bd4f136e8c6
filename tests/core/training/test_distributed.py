"""Two processes that share each batch: they learn what one would, one of them writes, and they stop together."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from benchmarks.web import free_port
from realm_core.errors import RealmError
from realm_core.model.checkpoint import load_model
from realm_core.training import finetune_step, ict
from realm_core.training.distributed import World
from tests.core.conftest import Deployment
from tests.core.processes import TOP, finish, start_ranks
from tests.core.running import activity_of, rows
from tests.core.training.material import finetune_arguments
from tests.core.training.test_loop import loop_of
from tests.core.training.towns import Towns
from tests.waiting import wait_until

# What each process runs: `python -m realm_core`, in float32 whatever the machine can do, for sums are compared to many
# digits. Beside the run it leaves its id, and at the end the files of the test's folder that it wrote to.
PROGRAM = """
import os, sys
from pathlib import Path
import torch
from realm_core.__main__ import end, main
from realm_core.training import finetune_step, ict
folder, rank, written = Path(sys.argv.pop(1)), os.environ["RANK"], set()
(folder / f"{rank}.pid").write_text(str(os.getpid()))
def notice(event, arguments):
    if event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR) and str(folder) in str(arguments[0]):
        written.add(str(arguments[0]))
sys.addaudithook(notice)
finetune_step.fast_dtype = ict.fast_dtype = lambda device: torch.float32
status = main()
print(f"{rank} wrote {len(written)} files.", file=sys.stderr)
end(status)
"""
SETTINGS: dict[str, Any] = {
    "holdout": 0.2,
    "epochs": 3,
    "batch": 5,  # shares of two and of three
    "at_once": 2,
    "checkpoint_every": 4,
    "query_lr": 1e-3,
    "reader_lr": 1e-3,
    "head_lr": 1e-3,
    "dropout": 0.0,
}


def run_two(folder: Path, words: Sequence[str], activity: str) -> str:
    """An activity in two processes, to its end; what they say."""
    ends = [finish(process) for process in start_ranks([str(folder), activity, *words], PROGRAM)]
    errors = "".join(said for _, said in ends)
    assert [status for status, _ in ends] == [0, 0], errors
    return errors


def written(errors: str) -> dict[str, int]:
    """How many files each process says that it wrote to."""
    return {rank: int(count) for rank, count in re.findall(r"^(\d) wrote (\d+) files", errors, re.MULTILINE)}


def start_under_torchrun(folder: Path, words: Sequence[str]) -> subprocess.Popen[str]:
    """`finetune` in two processes under torchrun, which meet on the loopback interface."""
    # Behind `--` torchrun leaves `--run` alone, which it would take for an option of its own.
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python", "--"]
    return subprocess.Popen(
        [sys.executable, *torchrun, sys.executable, "-c", PROGRAM, str(folder), "finetune", *words],
        cwd=TOP,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_on_two_machines(folder: Path, words: Sequence[str]) -> list[subprocess.Popen[str]]:
    """`finetune` in a process on each of two machines, which meet at a loopback address."""
    ranks = [sys.executable, "-m", "realm_core.training.ranks", "--processes=1", "--nodes=2"]
    program = [sys.executable, "-c", PROGRAM, str(folder), "finetune", *words]
    place = f"127.0.0.2:{free_port()}"
    return [
        subprocess.Popen(
            [*ranks, f"--node-rank={rank}", f"--rendezvous={place}", *program],
            cwd=TOP,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


def assert_close(one: Path, other: Path, before: Path) -> None:
    """Equal but for the order of sums, which is much less than what training moved."""
    own, others, first = (load_file(folder / "model.safetensors") for folder in (one, other, before))
    assert own.keys() == others.keys()
    moved = 0.0
    for name in own:
        torch.testing.assert_close(own[name], others[name], rtol=1e-3, atol=2e-5)
        if name in first:
            moved = max(moved, float((own[name] - first[name]).abs().max()))
    assert moved > 1e-3


@pytest.mark.nightly  # two processes of one machine do, every day
@pytest.mark.timeout(900)  # processes are started, on a machine that may be busy
def test_two_machines_learn_what_one_process_would(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*finetune_arguments(deployment, tmp_path, SETTINGS, output="two"), "--run", str(tmp_path / "run")]
    ends = [finish(machine) for machine in start_on_two_machines(tmp_path, words)]
    errors = "".join(said for _, said in ends)
    assert [status for status, _ in ends] == [0, 0], errors
    monkeypatch.setattr(finetune_step, "fast_dtype", lambda device: torch.float32)
    activity_of("finetune", finetune_arguments(deployment, tmp_path, SETTINGS, output="one"), run=tmp_path / "alone")
    assert_close(tmp_path / "one", tmp_path / "two", deployment.model)
    # loss and held-out figures are of the whole batch, and reported once
    together, alone = rows(tmp_path / "run"), rows(tmp_path / "alone")
    assert [row["step"] for row in together] == [row["step"] for row in alone]
    for row, wanted in zip(together, alone, strict=True):
        assert row.keys() == wanted.keys()
        for name in {"finetune.loss", "finetune.held_out.recall@5", "finetune.held_out.span"} & row.keys():
            assert row[name] == pytest.approx(wanted[name], rel=1e-4)
    assert {"finetune.loss", "finetune.held_out.span"} <= {name for row in together for name in row}
    assert errors.count("questions to train on") == errors.count("The model is") == 1
    assert "\n1 wrote 0 files." in f"\n{errors}" and "\n0 wrote 0 files." not in f"\n{errors}"


@pytest.mark.nightly  # the test below has a shorter one every day
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("activity", "part"), [("ict", "block"), ("mlm", "encoder")])
def test_two_processes_warm_up_one_model(towns: Towns, tmp_path: Path, activity: str, part: str) -> None:
    """Each hides other words of its share than one process would, so `mlm` learns something else; but together."""
    settings = {"steps": 40, "batch": 16, "at_once": 8, "learning_rate": 1e-2, "dropout": 0.0, "holdout": 0.25}
    words = [*map(str, towns.warm_up(tmp_path / "made", settings)), "--run", str(tmp_path / "run")]
    errors = run_two(tmp_path, words, activity)
    losses = {row["step"]: row[f"{activity}.loss"] for row in rows(tmp_path / "run") if f"{activity}.loss" in row}
    assert list(losses) == [10, 20, 30, 40] and losses[40] < 0.9 * losses[10]
    assert errors.count("The model is") == 1
    assert written(errors)["1"] <= 1 < written(errors)["0"]
    before, after = load_model(towns.model), load_model(tmp_path / "made")
    own, first = (getattr(model, part).state_dict() for model in (after, before))
    assert max(float((own[name] - first[name]).abs().max()) for name in own) > 1e-3


@pytest.mark.timeout(900)
def test_sentences_of_one_process_are_told_from_the_blocks_of_all(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes with parts of four learn what one with parts of eight would; shares of four and of three, too."""
    settings = {"steps": 6, "batch": 15, "learning_rate": 1e-2, "dropout": 0.0, "holdout": 0.25, "metrics_every": 1}
    words = [*map(str, towns.warm_up(tmp_path / "two", settings | {"at_once": 8})), "--run", str(tmp_path / "run")]
    errors = run_two(tmp_path, words, "ict")
    assert errors.count("The model is") == 1
    assert written(errors)["1"] <= 1 < written(errors)["0"]  # the lock, under which the corpus is cut into wordpieces
    monkeypatch.setattr(ict, "fast_dtype", lambda device: torch.float32)
    activity_of("ict", towns.warm_up(tmp_path / "one", settings | {"at_once": 15}), run=tmp_path / "alone")
    for row, wanted in zip(rows(tmp_path / "run"), rows(tmp_path / "alone"), strict=True):
        assert row.keys() == wanted.keys()
        if "ict.loss" in row:
            assert row["ict.loss"] == pytest.approx(wanted["ict.loss"], rel=1e-3)
    assert_close(tmp_path / "one", tmp_path / "two", towns.model)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("told", [pytest.param("torchrun", marks=pytest.mark.nightly), "the second process"])
def test_when_one_is_told_to_stop_both_do(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    settings = SETTINGS | {"epochs": 500, "holdout": 0.0, "checkpoint_every": 10_000}
    run = tmp_path / "run"
    words = [*finetune_arguments(deployment, tmp_path, settings, output="model"), "--run", str(run)]
    if told == "torchrun":
        first = last = start_under_torchrun(tmp_path, words)
    else:
        first, last = start_ranks([str(tmp_path), "finetune", *words], PROGRAM)
    wait_until(lambda: (run / "metrics.jsonl").exists(), first)
    last.terminate()
    ends = [finish(process) for process in {first, last}]
    errors = "".join(said for _, said in ends)
    assert all(status != 0 for status, _ in ends), errors
    assert errors.count("Stopped; what was finished is kept.") == 2, errors
    for rank in "01":
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / f"{rank}.pid").read_text()), 0)
    saved = [int(folder.name.rpartition("-")[2]) for folder in (run / "finetune").iterdir()]
    assert len(saved) == 1 and saved[0] >= 10 and not (tmp_path / "model").exists()
    # what two began one can finish
    monkeypatch.setattr(finetune_step, "fast_dtype", lambda device: torch.float32)
    settings["epochs"] = saved[0] // 2 + 1  # two steps an epoch
    activity_of("finetune", finetune_arguments(deployment, tmp_path, settings, output="model"), run=run)
    assert max(row["step"] for row in rows(run)) == 2 * settings["epochs"] and (tmp_path / "model").exists()


def test_more_processes_than_questions_are_refused(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "join", lambda device: World(0, 3))
    monkeypatch.setattr(World, "wait", lambda self: None)
    with pytest.raises(RealmError, match="3 processes cannot share a step's questions: it has 2"):
        activity_of(
            "finetune",
            finetune_arguments(deployment, tmp_path, SETTINGS | {"batch": 2}, output="m"),
            run=tmp_path / "run",
        )


def test_processes_wait_for_one_that_works_for_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **options: given.update(options))
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    assert World.join(torch.device("cpu")) == World(1, 2)
    assert given["timeout"] >= timedelta(days=1)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[World], object]], None]:
    """Calls a function as two processes would, in threads that reduce by gloo: no Python need be started."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    store, here = dist.HashStore(), threading.local()

    def reduce(tensor: torch.Tensor, op: Any = dist.ReduceOp.SUM) -> None:
        options = dist.AllreduceOptions()
        options.reduceOp = op
        here.group.allreduce([tensor], options).wait()

    def as_rank(work: Callable[[World], object], rank: int) -> None:
        here.group = dist.ProcessGroupGloo(store, rank, 2, timedelta(seconds=30))
        work(World(rank, 2))

    def call(work: Callable[[World], object]) -> None:
        with ThreadPoolExecutor(2) as threads:
            for done in [threads.submit(as_rank, work, rank) for rank in range(2)]:
                done.result()

    monkeypatch.setattr(dist, "all_reduce", reduce)
    monkeypatch.setattr(dist, "barrier", lambda: here.group.barrier().wait())
    return call


def test_sums_are_of_the_figures_that_any_process_has(two: Callable[[Callable[[World], object]], None]) -> None:
    cpu = torch.device("cpu")

    def work(world: World) -> None:
        own = {"loss": 1.0} if world.rank == 0 else {"loss": 2.0, "überall": 0.25, "a": 4.0}
        assert world.sum(own, cpu) == {"loss": 3.0, "überall": 0.25, "a": 4.0}
        assert world.sum({}, cpu) == {}

    two(work)


def test_a_process_without_a_sentence_weighs_nothing(
    two: Callable[[Callable[[World], object]], None], tmp_path: Path
) -> None:
    def work(world: World) -> None:
        module = torch.nn.Linear(2, 1)

        def losses_of(step: int) -> Iterator[tuple[torch.Tensor, dict[str, float]]]:
            # One process has three sentences, then one; the other has one in the first step and never again.
            if world.rank == 0:
                yield module.weight.sum() * 0 + 4.0, {"accuracy": 0.5, "sequences": 3 if step == 0 else 1}
            elif step == 0:
                yield module.weight.sum() * 0 + 2.0, {"accuracy": 1.0, "sequences": 1}

        loop = loop_of(module, tmp_path, checkpoint_every=20, world=world)
        assert loop.run(losses_of, lambda: {"recall": 0.25}) == {"recall": 0.25}

    two(work)
    first, second = [row for row in rows(tmp_path) if "small.loss" in row]
    assert (first["small.loss"], second["small.loss"]) == (pytest.approx((10 * 4 + 2) / 20), 2.0)
    assert first["small.accuracy"] == pytest.approx((3 * 0.5 + 9 * 0.5 + 1.0) / 13) and second["small.accuracy"] == 0.5


def test_a_checkpoint_that_not_all_see_is_refused(
    two: Callable[[Callable[[World], object]], None], tmp_path: Path
) -> None:
    (tmp_path / "0" / "small" / "checkpoint-3").mkdir(parents=True)

    def work(world: World) -> None:
        loop = loop_of(torch.nn.Linear(2, 1), tmp_path / str(world.rank), world=world)
        with pytest.raises(RealmError, match="must be on storage that all of its machines share"):
            loop.resume()

    two(work)


@given(count=st.integers(0, 200), size=st.integers(1, 9))
def test_shares_are_nearly_equal_and_leave_nothing_out(count: int, size: int) -> None:
    shares = [World(rank, size).share(count) for rank in range(size)]
    assert shares[0].start == 0 and shares[-1].stop == count
    assert all(one.stop == other.start for one, other in pairwise(shares))
    lengths = [share.stop - share.start for share in shares]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize(("processes", "status"), [("1", -signal.SIGABRT), ("2", 3)])
def test_a_destructor_that_aborts_does_not_fail_a_process_of_several(processes: str, status: int) -> None:
    program = """
import atexit, ctypes
from realm_core.__main__ import end
libc = ctypes.CDLL(None)
libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)
atexit.register(print, "left")
print("done")
end(3)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=TOP,
        env={**os.environ, "WORLD_SIZE": processes},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (status, "done\nleft\n")
