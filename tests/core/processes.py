"""Real processes of `python -m realm_core`, watched until they have done something and then stopped."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Sequence
from select import select

from tests.forked import TOP as TOP
from tests.forked import Forked
from tests.forking import Start
from tests.waiting import PATIENCE_S


class Process(Forked):
    """A forked process whose output and errors are kept."""

    def __init__(self, start: Start) -> None:
        (self._output, output), (self._errors, errors) = os.pipe(), os.pipe()
        super().__init__(start, output, errors)
        os.close(output)
        os.close(errors)

    def communicate(self, timeout: float = PATIENCE_S) -> tuple[str, str]:  # type: ignore[override]
        """What it writes to its output and to its errors until it ends."""
        said, deadline = {self._output: b"", self._errors: b""}, time.monotonic() + timeout
        still_open = [*said, *([self._told] if self.returncode is None else [])]
        while still_open:
            ready = select(still_open, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                raise subprocess.TimeoutExpired(self.args, timeout)
            for one in ready:
                if one is self._told:
                    self.poll()
                    still_open.remove(one)
                elif read := os.read(one, 1 << 16):
                    said[one] += read
                else:
                    os.close(one)
                    still_open.remove(one)
        return said[self._output].decode(), said[self._errors].decode()


def start(arguments: Sequence[str], program: str = "", **environment: str) -> Process:
    """Start `python -m realm_core …`; one thread, so that sums are made in one order.

    program: Python that runs instead, with the arguments in sys.argv. environment: variables beside this process's.
    """
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return Process(Start(module="realm_core", program=program, arguments=list(arguments), environment=surroundings))


def start_ranks(arguments: Sequence[str], program: str = "") -> list[Process]:
    """Start two processes of one training as torchrun would, which meet on the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    place |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    return [start(arguments, program, RANK=rank, LOCAL_RANK=rank, **place) for rank in "01"]


def finish(process: Process | subprocess.Popen[str]) -> tuple[int, str]:
    """(exit status, stderr)."""
    try:
        _, errors = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode is not None
    return process.returncode, errors


def run(arguments: Sequence[str]) -> tuple[int, str]:
    """Run it to its end: (exit status, stderr)."""
    return finish(start(arguments))
