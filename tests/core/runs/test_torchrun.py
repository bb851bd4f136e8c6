"""A training in several processes: none outlives its worker, and the end of one is the end of all."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from realm_core.errors import EXIT_REFUSED
from realm_core.runs.processes import EXIT_LOCKED, kill_all, start, under_torchrun
from realm_core.training.ranks import cause, main
from tests.waiting import alive, wait_until

RANK = """
import os, pathlib, sys, time
path = pathlib.Path(sys.argv[1]) / os.environ["RANK"]
path.with_suffix(".tmp").write_text(str(os.getpid()))
path.with_suffix(".tmp").rename(path)
time.sleep(60)
"""


class Ranks:
    """Two processes under torchrun, with a worker's lock."""

    def __init__(self, folder: Path) -> None:
        self.lock = folder / "lock"
        command = under_torchrun(2, [sys.executable, "-c", RANK, str(folder)], self.lock)
        self.torchrun = start(command, lock=self.lock)
        wait_until(lambda: all((folder / str(rank)).exists() for rank in range(2)))
        self.pids = [int((folder / str(rank)).read_text()) for rank in range(2)]

    def next_attempt(self) -> int:
        """The status of another attempt, which ends at once if it may begin."""
        return start([sys.executable, "-c", ""], lock=self.lock).wait()


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    running = Ranks(tmp_path)
    yield running
    kill_all(running.torchrun)
    running.torchrun.wait()


def test_killed_ones_are_gone_and_until_then_nobody_else_begins(ranks: Ranks) -> None:
    assert all(map(alive, ranks.pids)) and ranks.next_attempt() == EXIT_LOCKED
    kill_all(ranks.torchrun)
    ranks.torchrun.wait()
    wait_until(lambda: not any(map(alive, ranks.pids)), patience_s=2)
    assert ranks.next_attempt() == 0


def test_a_killed_rank_ends_all_with_its_signal(ranks: Ranks) -> None:
    os.kill(ranks.pids[1], signal.SIGKILL)
    assert ranks.torchrun.wait() == -signal.SIGKILL
    assert not any(map(alive, ranks.pids))


@pytest.mark.parametrize(
    ("statuses", "says"),
    [
        ([(1, 0), (-9, 0)], -9),  # the first lost its peer
        ([(2, 0), (-9, 7)], 2),  # the other did not end when it was asked to
        ([(1, 0), (2, 0)], 2),
        ([(3, 0), (1, 1)], 3),
        ([(1, 0), (-15, 0)], 1),  # torchrun asked the other to end
        ([(-15, 0), (-15, 0)], -15),
    ],
)
def test_the_cause_is_who_ended_first_and_was_killed_or_said_why(statuses: list[tuple[int, int]], says: int) -> None:
    failures = [ProcessFailure(rank, 0, status, "") for rank, (status, _) in enumerate(statuses)]
    for failure, (_, second) in zip(failures, statuses, strict=True):
        failure.timestamp = 1_000 + second
    assert cause(failures) == says


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--node-rank=2", "--rendezvous=127.0.0.1:29500"], "--node-rank must be from 0 to 1, not 2."),
        ([], "Several machines need --rendezvous HOST:PORT, the same on each."),
        (["--rendezvous=127.0.0.1"], "Several machines need --rendezvous HOST:PORT, the same on each."),
        (["--rendezvous=nowhere.invalid:29500"], "--rendezvous: nowhere.invalid cannot be reached:"),
    ],
)
def test_machines_that_cannot_meet_are_refused(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr("logging.disable", lambda level: None)
    assert main(["--processes=1", "--nodes=2", *words, sys.executable, "-c", ""]) == EXIT_REFUSED
    assert capsys.readouterr().err.startswith(f"error: {says}")
