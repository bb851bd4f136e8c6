"""The process that forks those which tests start: `python -m tests.forking DESCRIPTOR`.

To load torch, Django or Celery takes longer than what such a process has to do. Here they are loaded once, with the
words by which questions are spelt; nothing else is computed or set up, so each process begins behind that. DESCRIPTOR
is a socket: for each process a `Start` comes as JSON, with four descriptors: its output, its errors, a socket that is
told its id and then its exit status, and the other end of DESCRIPTOR, with which a process of pytest asks for
processes, too.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
from select import select
from typing import NoReturn, TypedDict

ASKING = "TESTS_FORKING"  # in the environment of pytest: the descriptor of that other end
FORKS_JOBS = "TESTS_FORK_JOBS"  # in the environment of a worker of tests.workers.app: it asks for processes, too
_LONGEST_BYTES = 100_000  # of a `Start`
_PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>
_CELERY = ("celery.bin.celery", "celery.apps.beat", "celery.concurrency.thread", "kombu.transport.redis")
_GUNICORN = ("gunicorn.app.wsgiapp", "gunicorn.workers.gthread", "realm_core.serving.engine")
_WEBAPP = ("django.db.models", "django.core.handlers.wsgi", "psycopg", "redis", "realm_core.tasks")  # uses these
# pandas is loaded by pyarrow, requests by Django REST framework, the two of torch by transformers.
_TESTS = ("pandas", "playwright.sync_api", "requests", "torch._dynamo", "torch.distributed.tensor")
_LATER = ("matplotlib.figure", "spacy")
_LOADED_FIRST = {
    "celery": (*_CELERY, *_WEBAPP),
    "django": (*_WEBAPP, "requests"),
    "gunicorn": (*_GUNICORN, *_WEBAPP, "pandas", "requests"),
    "pytest": ("realm_core.serving.engine", *_CELERY, *_WEBAPP, *_TESTS, *_LATER),
    "realm_core": ("torch", "pandas"),
    "workers.app": (*_CELERY, *_WEBAPP),
    "tests.core.living.crashing": ("tests.core.living.building",),
}


class Start(TypedDict):
    """A process: `python -m module`, or a program in Python if that is given; arguments are in sys.argv."""

    module: str
    program: str
    arguments: list[str]
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
        message, descriptors, _, _ = socket.recv_fds(control, _LONGEST_BYTES, 4)
        if not message:
            for pid, _ in running.values():
                os.kill(pid, signal.SIGKILL)
            return
        start: Start = json.loads(message)
        _load(start)
        gc.freeze()  # or else each process would look through all that is loaded, and so copy it
        own = os.getpid()
        pid = os.fork()
        if pid == 0:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # as launch.py has it
            if os.getppid() != own:
                os._exit(1)
            control.close()
            os.close(descriptors[2])
            for descriptor, (_, told) in running.items():
                os.close(descriptor)
                told.close()
            become(start, descriptors[0], descriptors[1], descriptors[3])
        for number in (0, 1, 3):
            os.close(descriptors[number])
        told = socket.socket(fileno=descriptors[2])
        told.send(str(pid).encode())
        running[os.pidfd_open(pid)] = pid, told


def _load(start: Start) -> None:
    for name in _LOADED_FIRST.get(start["module"], ()):
        importlib.import_module(name)
    if start["module"] in ("gunicorn", "pytest"):
        from realm_core.text.language import foreign_language
        from realm_core.text.spelling import english

        english()  # half a second each, for every process that answers
        foreign_language("What language is this?")
    if start["module"] != "realm_core":
        return
    from realm_core.tasks import ACTIVITIES

    if "RANK" in start["environment"]:
        import torch._dynamo  # noqa: F401 - DDP's
    for name in set(start["arguments"]) & set(ACTIVITIES):
        task = ACTIVITIES[name]
        importlib.import_module(task.code or task.__module__)


def become(start: Start, output: int, errors: int, asking: int) -> NoReturn:
    """Be the process that was asked for, the leader of its own session."""
    os.setsid()
    for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), output, errors)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(start["environment"])
    if start["module"] == "pytest" or FORKS_JOBS in os.environ:
        os.environ[ASKING] = str(asking)
    else:
        os.close(asking)
    if "PYTHONUNBUFFERED" in os.environ:
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    sys.argv[1:] = start["arguments"]
    try:
        if start["program"]:
            exec(compile(start["program"], "<program>", "exec"), {"__name__": "__main__"})
        else:
            runpy.run_module(start["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if not (end.code is None or isinstance(end.code, int)):
            raise
        _leave(end.code or 0)
    _leave(0)


def _leave(status: int) -> NoReturn:
    """End as Python does, but for taking all that is loaded apart, which takes longer than most of these processes."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
