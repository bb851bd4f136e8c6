"""Worker processes that answer requests over pipes: bytes in, bytes out, no pickle.

A worker is a module of this package, started with `python -m`, that calls `serve`. It reads requests from its standard
input and answers on its standard output until the input ends, as it does when the parent ends for any reason. A frame
is a length (8 bytes, big-endian) and that many bytes; a request is one frame, an answer two, of which an empty first
one means that the second is an error message or a traceback.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

import realm_core
from realm_core.errors import RealmError

_LENGTH = struct.Struct(">Q")
_REFUSED = b"\0"  # no traceback starts with it
_UNDER_WAY = 3  # requests per process, so that none is idle
_LOOK_UP_S = 0.2  # latency of a request to stop

PipeReply = tuple[bytes, bytes]
T = TypeVar("T")


class Workers:
    """Worker processes, each with a thread that waits for it.

    processes:    their number.
    command:      module of the worker, and its arguments.
    task:         what they do, for the error message about a dead one: "cleans articles".
    environment:  additional environment variables.
    """

    def __init__(
        self, processes: int, command: list[str], task: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.processes = processes
        self._command = command
        self._task = task
        self._environment = environment or {}
        self._own = threading.local()
        self._all: list[subprocess.Popen[bytes]] = []
        self._threads = ThreadPoolExecutor(processes, "worker")

    def answers(
        self, requests: Iterable[tuple[bytes, T]], check: Callable[[], None] = lambda: None
    ) -> Iterator[tuple[PipeReply, T]]:
        """The answer to each request, with the object that came with the request, in the order of the requests.

        check: called periodically while answers are awaited; its exception ends the iteration.
        """
        under_way: deque[tuple[Future[PipeReply], T]] = deque()
        for request, tag in requests:
            under_way.append((self._threads.submit(self._ask, request), tag))
            if len(under_way) >= self.processes * _UNDER_WAY:
                yield _first(under_way, check)
        while under_way:
            yield _first(under_way, check)

    def close(self) -> None:
        """Cancel waiting requests, and end the workers; their current work is lost."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._all:
            worker.kill()
        self._threads.shutdown(wait=True)
        for worker in self._all:
            with suppress(BrokenPipeError), worker:  # unsent data
                pass  # closes its pipes and waits for its end

    def _ask(self, request: bytes) -> PipeReply:
        worker: subprocess.Popen[bytes] | None = getattr(self._own, "worker", None)
        if worker is None:
            worker = self._own.worker = self._start()
        assert worker.stdin is not None and worker.stdout is not None
        try:
            _write_frame(worker.stdin, request)
            worker.stdin.flush()
            first, second = _read_frame(worker.stdout), _read_frame(worker.stdout)
        except BrokenPipeError:
            first = second = None
        if first is None or second is None:
            raise RealmError(f"A process that {self._task} died, for want of memory perhaps; run this again.")
        if second.startswith(_REFUSED) and not first:
            raise RealmError(second.removeprefix(_REFUSED).decode())
        if not first:
            raise RuntimeError(f"A process that {self._task} failed:\n{second.decode()}")
        return first, second

    def _start(self) -> subprocess.Popen[bytes]:
        root = str(Path(realm_core.__file__).parent.parent)
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        worker = subprocess.Popen(
            [sys.executable, "-m", *self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=-1,
            env={**os.environ, **self._environment, "PYTHONPATH": path},
        )
        self._all.append(worker)
        return worker


def serve(answer: Callable[[bytes], PipeReply]) -> None:
    """Be a worker: answer requests until there are no more. `answer` must not return an empty first part."""
    for number in (signal.SIGINT, signal.SIGTERM):  # for the parent, which closes the worker's input
        signal.signal(number, signal.SIG_IGN)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while (request := _read_frame(requests)) is not None:
        try:
            first, second = answer(request)
        except RealmError as error:
            first, second = b"", _REFUSED + str(error).encode()
        except Exception:
            first, second = b"", traceback.format_exc().encode()
        _write_frame(answers, first)
        _write_frame(answers, second)
        answers.flush()


def _first(under_way: deque[tuple[Future[PipeReply], T]], check: Callable[[], None]) -> tuple[PipeReply, T]:
    future, tag = under_way.popleft()
    while True:
        check()
        with suppress(TimeoutError):
            return future.result(timeout=_LOOK_UP_S), tag


def _read_frame(stream: IO[bytes]) -> bytes | None:
    """The next frame; None at the end of the stream."""
    header = stream.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    length: int = _LENGTH.unpack(header)[0]
    content = stream.read(length)
    return content if len(content) == length else None


def _write_frame(stream: IO[bytes], content: bytes) -> None:
    stream.write(_LENGTH.pack(len(content)))
    stream.write(content)
