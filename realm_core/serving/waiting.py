"""The engine's request queue: bounded, first in, first out, with a deadline.

    queue.submit(request)   in the client's thread: enqueue, wait, return the result
    queue.take(most)        in the engine's thread: the next requests as a batch

A request leaves the queue when its deadline passes, or, if its client has disconnected, when the engine takes the next
batch. Nothing is computed for it. A batch that is being computed ends early when all its clients have disconnected
(`engine.py`). Times are of a monotonic clock.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from realm_core.errors import EngineUnavailable, RealmError

_SMOOTHING = 0.8  # weight of earlier batches in the moving average of the service time

Request = TypeVar("Request")


@dataclass(frozen=True, eq=False)
class QueuedRequest(Generic[Request]):
    """A waiting request. listens: whether the client is still connected. queued_at: of `time.perf_counter`."""

    request: Request
    listens: Callable[[], bool] = lambda: True
    queued_at: float = field(default_factory=time.perf_counter)
    future: Future[Any] = field(default_factory=Future)

    def drop(self) -> None:
        """End it without a result, because its client has disconnected."""
        self.future.set_exception(EngineUnavailable("The client has disconnected.", retry_after_s=1))


class RequestQueue(Generic[Request]):
    """A bounded queue; all methods are thread-safe.

    capacity: requests that may wait, without those that are being computed. deadline_s: from submission to result.
    """

    def __init__(self, capacity: int, deadline_s: float) -> None:
        self.capacity, self.deadline_s = capacity, deadline_s
        self._waiting: deque[QueuedRequest[Request]] = deque()
        self._changed = threading.Condition()
        self.closed = False
        self._service_time_s = 0.0  # per request, a moving average

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, request: Request, *, listens: Callable[[], bool] | None = None) -> Any:
        """Enqueue a request and wait for its result.

        listens: whether the client is still connected; called by another thread.
        Raises EngineUnavailable if the queue is full, the deadline passes or the client disconnects, and whatever the
        computation raises.
        """
        queued = QueuedRequest(request, listens) if listens else QueuedRequest(request)
        with self._changed:
            if self.closed:
                raise RealmError("This engine has been closed.")
            if len(self._waiting) >= self.capacity:
                raise EngineUnavailable(
                    f"{len(self._waiting)} questions are waiting already.",
                    retry_after_s=self._expected_wait_s(),
                )
            self._waiting.append(queued)
            self._changed.notify()
        return self._result(queued, self.deadline_s)

    def take(self, most: int) -> list[QueuedRequest[Request]] | None:
        """Wait for requests and dequeue up to `most`; empty if all clients have disconnected.

        None: the queue is closed and empty.
        """
        with self._changed:
            while not self._waiting and not self.closed:
                self._changed.wait()
            waiting = list(self._waiting)
        # Connections are checked in this thread: a hundred client threads that poll would slow down the engine.
        for queued in waiting:
            if not queued.listens() and self._remove(queued):
                queued.drop()
        with self._changed:
            if self.closed and not self._waiting:
                return None
            return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def record_batch(self, seconds: float, served: int) -> None:
        """Record the duration of a batch, from which the Retry-After of refused requests is estimated."""
        last_s = seconds / served
        self._service_time_s = (
            last_s if not self._service_time_s else _SMOOTHING * self._service_time_s + (1 - _SMOOTHING) * last_s
        )

    def close(self) -> None:
        """Refuse new requests; waiting ones are still served."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def _result(self, queued: QueuedRequest[Request], deadline_s: float) -> Any:
        wait([queued.future], max(0.0, queued.queued_at + deadline_s - time.perf_counter()))
        if queued.future.done():
            return queued.future.result()
        self._remove(queued)
        raise EngineUnavailable(
            f"There was no answer within {deadline_s:g} seconds.",
            retry_after_s=self._expected_wait_s(),
        )

    def _remove(self, queued: QueuedRequest[Request]) -> bool:
        """Remove a request; returns whether it was still in the queue."""
        with self._changed:
            with suppress(ValueError):
                self._waiting.remove(queued)
                return True
            return False

    def _expected_wait_s(self) -> int:
        """The expected time to serve the whole queue, in whole seconds, at least one."""
        return max(1, min(math.ceil(self.deadline_s), math.ceil(len(self._waiting) * self._service_time_s)))
