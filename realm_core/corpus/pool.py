"""Bundles of raw articles through several worker processes, out again in the order in which they went in."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import realm_core
from realm_core.corpus.records import RawArticle
from realm_core.corpus.worker import prepare, read_frame, to_request, write_frame
from realm_core.errors import RealmError

# A bundle: enough work to outweigh sending it, little enough to keep progress and memory smooth.
_BUNDLE_ARTICLES = 256
_BUNDLE_CHARACTERS = 1 << 19
_BUNDLES_UNDER_WAY = 3  # for each process


@dataclass(frozen=True)
class Bundle:
    """Finished articles and blocks; position: records of the source that lie behind with them."""

    articles: pa.RecordBatch
    blocks: pa.RecordBatch
    position: int


@contextmanager
def prepared(raw: Iterable[RawArticle], processes: int | None, first: int) -> Iterator[Iterator[Bundle]]:
    """Bundles of cleaned and packed articles in the source's order.

    processes: 1 works in this process; None takes a worker process for each processor.
    first: records of the source before `raw`.
    """
    processes = processes or os.cpu_count() or 1
    bundles = _bundles(raw, first)
    if processes == 1:
        yield (_finished(prepare(request), position) for request, position in bundles)
        return
    workers = _Workers(processes)
    try:
        yield _in_order(workers, bundles, processes * _BUNDLES_UNDER_WAY)
    finally:
        workers.close()


def _bundles(raw: Iterable[RawArticle], first: int) -> Iterator[tuple[bytes, int]]:
    """Requests to a worker, each with the position behind it."""
    held: list[RawArticle] = []
    characters = 0
    position = first
    for article in raw:
        held.append(article)
        characters += len(article.text)
        position += 1
        if len(held) >= _BUNDLE_ARTICLES or characters >= _BUNDLE_CHARACTERS:
            yield to_request(held), position
            held, characters = [], 0
    if held:
        yield to_request(held), position


def _in_order(workers: _Workers, bundles: Iterator[tuple[bytes, int]], limit: int) -> Iterator[Bundle]:
    under_way: deque[tuple[Future[tuple[bytes, bytes]], int]] = deque()
    for request, position in bundles:
        under_way.append((workers.submit(request), position))
        if len(under_way) >= limit:
            future, done = under_way.popleft()
            yield _finished(future.result(), done)
    while under_way:
        future, done = under_way.popleft()
        yield _finished(future.result(), done)


def _finished(tables: tuple[bytes, bytes], position: int) -> Bundle:
    articles, blocks = (pa.ipc.open_stream(table).read_next_batch() for table in tables)
    return Bundle(articles, blocks, position)


class _Workers:
    """Worker processes, one to a thread that waits for it."""

    def __init__(self, processes: int) -> None:
        self._own = threading.local()
        self._all: list[subprocess.Popen[bytes]] = []
        self._threads = ThreadPoolExecutor(processes, "corpus-worker")

    def submit(self, request: bytes) -> Future[tuple[bytes, bytes]]:
        return self._threads.submit(self._ask, request)

    def close(self) -> None:
        """Let go of what waits, and end the workers; what they are at is lost."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._all:
            worker.kill()
        self._threads.shutdown(wait=True)
        for worker in self._all:
            for stream in (worker.stdin, worker.stdout):
                assert stream is not None
                with suppress(BrokenPipeError):  # what was not sent yet
                    stream.close()
            worker.wait()

    def _ask(self, request: bytes) -> tuple[bytes, bytes]:
        worker: subprocess.Popen[bytes] | None = getattr(self._own, "worker", None)
        if worker is None:
            worker = self._own.worker = self._start()
        assert worker.stdin is not None and worker.stdout is not None
        try:
            write_frame(worker.stdin, request)
            worker.stdin.flush()
            articles, blocks = read_frame(worker.stdout), read_frame(worker.stdout)
        except BrokenPipeError:
            articles = blocks = None
        if articles is None or blocks is None:
            raise RealmError("A process that cleans articles died, for want of memory perhaps; run this again.")
        if not articles:
            raise RuntimeError(f"A process that cleans articles failed:\n{blocks.decode()}")
        return articles, blocks

    def _start(self) -> subprocess.Popen[bytes]:
        root = str(Path(realm_core.__file__).parent.parent)
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        worker = subprocess.Popen(
            [sys.executable, "-m", "realm_core.corpus.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=-1,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._all.append(worker)
        return worker
