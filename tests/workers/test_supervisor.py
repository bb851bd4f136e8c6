"""The supervisor: it says when all is ready, starts again what dies, and leaves nothing behind."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import alive, wait_until
from workers.refusal import TOP

Starter = Callable[..., "Supervised"]


class Supervised:
    """A supervisor in a process of its own, and what it said."""

    def __init__(self, data: Path, port: int, mode: str) -> None:
        environment = {k: v for k, v in os.environ.items() if k not in ("BROKER_URL", "CACHE_URL")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.workers.supervised", mode],
            cwd=TOP,
            env=environment | {"REALM_DATA": str(data), "PORT": str(port)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.said += line

    def wait_for(self, words: str) -> None:
        try:
            wait_until(lambda: words in self.said, patience_s=20)
        except AssertionError:
            raise AssertionError(f"It never said {words!r} but:\n{self.said}") from None

    def children(self) -> dict[str, int]:
        """Name → process id."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        found = {}
        for pid in map(int, path.read_text().split()):
            command = Path(f"/proc/{pid}/cmdline").read_text()
            name = "broker" if "valkey" in command else "web" if "HTTPServer" in command else "worker"
            found[name] = pid
        return found

    def end(self) -> int:
        status = self.process.wait(20)
        self._reader.join()
        return status


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def supervised(tmp_path: Path, port: int) -> Iterator[Starter]:
    started: list[Supervised] = []

    def begin(mode: str = "usual", *, port: int = port) -> Supervised:
        started.append(Supervised(tmp_path / "data", port, mode))
        return started[-1]

    yield begin
    for one in started:
        one.process.kill()
        one.end()


def worker_log(folder: Path) -> Path:
    """Where the program says that it has set up what it does with signals."""
    return folder / "data" / "logs" / "worker.log"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ready_in_one_line_and_gone_after_a_signal(supervised: Starter, port: int, number: signal.Signals) -> None:
    one = supervised()
    one.wait_for("Ready")
    assert [line for line in one.said.splitlines() if "Ready" in line] == [
        f"Ready: open http://127.0.0.1:{port}/ · Ctrl-C stops everything"
    ]
    children = one.children()
    assert sorted(children) == ["broker", "web", "worker"]
    environments = {name: Path(f"/proc/{pid}/environ").read_text().split("\0") for name, pid in children.items()}
    assert [name for name, told in environments.items() if "OWN_VARIABLE=of the worker" in told] == ["worker"]
    one.process.send_signal(number)
    assert one.end() == 0
    assert not any(map(alive, children.values()))


def test_a_program_that_does_not_listen_is_killed(supervised: Starter, tmp_path: Path) -> None:
    one = supervised("deaf")
    one.wait_for("Ready")
    wait_until(lambda: "working" in worker_log(tmp_path).read_text())
    children = one.children()
    one.process.send_signal(signal.SIGINT)
    assert one.end() == 0
    assert not any(map(alive, children.values()))


def test_a_second_sigterm_does_not_kill_the_programs(supervised: Starter, tmp_path: Path) -> None:
    """`make` passes on a SIGTERM that its whole group got."""
    one = supervised("slow")
    one.wait_for("Ready")
    log = worker_log(tmp_path)
    wait_until(lambda: "working" in log.read_text())
    one.process.send_signal(signal.SIGTERM)
    one.wait_for("Stopping")
    one.process.send_signal(signal.SIGTERM)
    assert one.end() == 0
    assert "ended by itself" in log.read_text()


def test_a_second_request_kills_what_has_not_ended(supervised: Starter, tmp_path: Path) -> None:
    one = supervised("deaf for long")
    one.wait_for("Ready")
    log = worker_log(tmp_path)
    wait_until(lambda: "working" in log.read_text())
    children = one.children()
    one.process.send_signal(signal.SIGINT)
    wait_until(lambda: "goes on" in log.read_text(), patience_s=20)  # the first request has not killed it

    def asked_again() -> bool:
        """Asked until it counts as another request: the first moments' are the same one."""
        if alive(children["worker"]):
            one.process.send_signal(signal.SIGINT)
        return not alive(children["worker"])

    wait_until(asked_again, patience_s=20)  # less than what the worker may take
    assert one.end() == 0
    assert not any(map(alive, children.values()))


def test_killed_programs_are_started_again(supervised: Starter) -> None:
    one = supervised()
    one.wait_for("Ready")
    before = one.children()
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    for name in before:
        one.wait_for(f"The {name} process ended by SIGKILL; it starts again in 1 s.")
    wait_until(lambda: sorted(one.children()) == sorted(before), patience_s=10)
    assert not set(before.values()) & set(one.children().values())


def test_the_log_of_a_running_program_does_not_grow_for_ever(supervised: Starter, tmp_path: Path) -> None:
    one = supervised("small logs")
    one.wait_for("Ready")
    worker, logs = one.children()["worker"], tmp_path / "data" / "logs"
    earlier = logs / "worker.log.1"
    wait_until(lambda: earlier.exists() and earlier.read_text() == "working\n")
    wait_until(lambda: (logs / "worker.log").read_text() == "")
    assert one.children()["worker"] == worker


def test_a_program_that_cannot_start_is_named_with_its_last_words(supervised: Starter) -> None:
    one = supervised("broken")
    assert one.end() == 1
    assert "I cannot work like this." in one.said
    assert "Its log is" in one.said


def test_a_killed_supervisor_leaves_nothing_behind(supervised: Starter) -> None:
    one = supervised()
    one.wait_for("Ready")
    children = one.children()
    one.process.kill()
    wait_until(lambda: not any(map(alive, children.values())), patience_s=5)


def test_one_supervisor_for_a_data_folder(supervised: Starter, port: int) -> None:
    one = supervised()
    one.wait_for("Ready")
    two = supervised(port=port + 1)
    assert two.end() == 1
    assert f"is in use: `make run` is already running there (process {one.process.pid})" in two.said
    assert "REALM_DATA=" in two.said
    assert one.process.poll() is None


def test_a_port_in_use_is_refused_with_a_way_out(supervised: Starter, port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        one = supervised()
        assert one.end() == 1
    assert f"Port {port} cannot be used (Address already in use)" in one.said
    assert f"make run PORT={port + 1}" in one.said


def test_damaged_messages_of_the_broker_are_put_aside(supervised: Starter, tmp_path: Path) -> None:
    one = supervised()
    one.wait_for("Ready")
    one.process.send_signal(signal.SIGINT)
    one.end()
    for path in (tmp_path / "data" / "valkey" / "appendonlydir").iterdir():
        path.write_bytes(b"not what a broker writes\n" * 100)
    two = supervised()
    two.wait_for("put aside")
    two.wait_for("Ready")


def test_a_password_is_shown_on_a_terminal_alone() -> None:
    command = [sys.executable, "-c", "import workers.supervisor as it; print(it.PREPARATIONS[-1])"]
    assert subprocess.run(command, cwd=TOP, capture_output=True, check=True).stdout == b"('the data', 'setup_data')\n"
    leader, terminal = pty.openpty()
    subprocess.run(command, cwd=TOP, stdout=terminal, check=True)
    assert os.read(leader, 1000).split() == b"('the data', 'setup_data', '--show-password')".split()
    os.close(leader)
    os.close(terminal)
