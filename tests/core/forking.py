"""The process that forks those which the tests of realm_core start: `python -m tests.core.forking DESCRIPTOR`.

To load torch and an activity's code takes longer than what such a process has to do. Here both are loaded once, and
nothing is computed, so each process begins behind that. DESCRIPTOR is a socket: for each process a `Start` comes as
JSON, with three descriptors: its output, its errors, and a socket that is told its id and then its exit status.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
from select import select
from typing import NoReturn, TypedDict

from realm_core.__main__ import end, main
from realm_core.tasks import ACTIVITIES

_LONGEST_BYTES = 100_000  # of a `Start`


class Start(TypedDict):
    """A process: `python -m realm_core` with these arguments, or a program in Python that has them in sys.argv."""

    arguments: list[str]
    program: str
    environment: dict[str, str]


def serve(control: socket.socket) -> None:
    """Fork what is asked for until nobody could ask any more; what runs then is killed."""
    running: dict[int, tuple[int, socket.socket]] = {}  # by a descriptor that is readable when the process has ended
    while True:
        ready, _, _ = select([control.fileno(), *running], [], [])
        for descriptor in set(ready) & set(running):
            pid, told = running.pop(descriptor)
            os.close(descriptor)
            with told:
                told.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
        if control.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, _LONGEST_BYTES, 3)
        if not message:
            for pid, _ in running.values():
                os.kill(pid, signal.SIGKILL)
            return
        start: Start = json.loads(message)
        _load(start)
        pid = os.fork()
        if pid == 0:
            control.close()
            os.close(descriptors[2])
            for descriptor, (_, told) in running.items():
                os.close(descriptor)
                told.close()
            become(start, *descriptors[:2])
        for descriptor in descriptors[:2]:
            os.close(descriptor)
        told = socket.socket(fileno=descriptors[2])
        told.send(str(pid).encode())
        running[os.pidfd_open(pid)] = pid, told


def _load(start: Start) -> None:
    if "RANK" in start["environment"]:
        import torch._dynamo  # noqa: F401 - DDP's
    for name in set(start["arguments"]) & set(ACTIVITIES):
        task = ACTIVITIES[name]
        importlib.import_module(task.code or task.__module__)


def become(start: Start, output: int, errors: int) -> NoReturn:
    """Be the process that was asked for."""
    for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), output, errors)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(start["environment"])
    sys.argv[1:] = start["arguments"]
    if not start["program"]:
        end(main())
    exec(compile(start["program"], "<program>", "exec"), {"__name__": "__main__"})
    sys.exit()


if __name__ == "__main__":
    import torch  # noqa: F401

    serve(socket.socket(fileno=int(sys.argv[1])))
