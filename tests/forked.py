"""Processes of Python that begin with everything loaded (tests/forking.py)."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from select import select
from typing import IO

from tests.forking import ASKING, Start
from tests.waiting import PATIENCE_S

TOP = Path(__file__).resolve().parents[1]


@cache
def _forking() -> socket.socket:
    """Asks tests/forking.py for processes; it ends with this process, or with the one that forks this one, too."""
    if ASKING in os.environ:
        own = socket.socket(fileno=int(os.environ.pop(ASKING)))
        atexit.register(own.close)
        return own
    own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.forking", str(its.fileno())]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=TOP, env=environment, pass_fds=[its.fileno()])
    its.close()
    atexit.register(process.wait)
    atexit.register(own.close)
    return own


class Forked(subprocess.Popen[bytes]):
    """A forked process, asked and told as another is. output, errors: where it writes; this process closes them."""

    def __init__(self, start: Start, output: int, errors: int) -> None:
        self.args = [start["module"], *start["arguments"]]
        self.returncode: int | None = None  # type: ignore[assignment]
        self.stdin, self.stdout, self.stderr = None, None, None
        self._told, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            socket.send_fds(
                _forking(), [json.dumps(start).encode()], [output, errors, its.fileno(), _forking().fileno()]
            )
        self.pid = int(self._told.recv(100))

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._ended(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return status

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select([self._told], [], [], timeout)[0]:
            self.returncode = int(self._told.recv(100))
            self._told.close()
        return self.returncode


def start(
    command: Sequence[str], *, output: IO[bytes] | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """`realm_core.runs.processes.start` for a command that is `python -m MODULE …`. output: None: nowhere."""
    python, option, module, *arguments = command
    assert (python, option) == (sys.executable, "-m")
    surroundings = dict(os.environ if environment is None else environment)
    told = Start(module=module, program="", arguments=arguments, environment=surroundings)
    with open(os.devnull if output is None else os.dup(output.fileno()), "wb") as written:
        return Forked(told, written.fileno(), written.fileno())


def finished(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """The exit status of a `python -m MODULE …`, and all that it says."""
    with tempfile.TemporaryFile() as output:
        process = start(command, output=output, environment=environment)
        try:
            status = process.wait(PATIENCE_S)
        finally:
            process.kill()
        output.seek(0)
        return status, output.read().decode()


def run(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """What a `python -m MODULE …` prints that succeeds."""
    status, said = finished(command, environment)
    assert status == 0, said
    return said
