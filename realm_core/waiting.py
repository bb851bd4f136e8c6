"""The line of those who wait for the engine: bounded, first come, first served, nobody for longer than the deadline.

    line.ask(request)    the asker's thread: stand in the line, wait, return the result
    line.take(most)      the engine's thread: who is next, together

Whoever gives up, because the deadline has passed or because nobody listens any more, leaves the line at once: no work
is done for them, and nothing of them is kept. Time is that of a clock that never jumps.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from realm_core.errors import EngineUnavailable, RealmError

_LISTENS_AFTER_S = 0.5  # when it is first looked whether the asker is still there
_LISTENS_EVERY_S = 4.0  # how often at last; in between, each pause is twice the one before
_PACE_MEMORY = 0.8  # weight of what was known before a batch ended

Wanted = TypeVar("Wanted")


@dataclass(frozen=True, eq=False)
class Waiter(Generic[Wanted]):
    """One who waits. asked_at: of `time.perf_counter`."""

    wanted: Wanted
    asked_at: float = field(default_factory=time.perf_counter)
    future: Future[Any] = field(default_factory=Future)


class Line(Generic[Wanted]):
    """A bounded line; every method may be called from any thread.

    capacity: how many may wait, those apart that are being served. deadline_s: seconds from asking to the result.
    """

    def __init__(self, capacity: int, deadline_s: float) -> None:
        self.capacity, self.deadline_s = capacity, deadline_s
        self._waiting: deque[Waiter[Wanted]] = deque()
        self._changed = threading.Condition()
        self.closed = False
        self._pace_s = 0.0  # seconds that one takes, as of late

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, wanted: Wanted, *, listens: Callable[[], bool] | None = None, deadline_s: float | None = None) -> Any:
        """Stand in the line and wait for the result.

        deadline_s: instead of the line's. listens: says whether the asker still waits for it; looked at now and then.
        EngineUnavailable where the line is full, the deadline has passed or nobody listens; what the work raised.
        """
        waiter = Waiter(wanted)
        with self._changed:
            if self.closed:
                raise RealmError("This engine has been closed.")
            if len(self._waiting) >= self.capacity:
                raise EngineUnavailable(
                    f"{len(self._waiting)} questions are waiting already; ask again in a few seconds.",
                    retry_after_s=self._clear_in_s(),
                )
            self._waiting.append(waiter)
            self._changed.notify()
        return self._result(waiter, listens, deadline_s or self.deadline_s)

    def take(self, most: int) -> list[Waiter[Wanted]]:
        """Wait until somebody waits, and take up to `most` of them out of the line; nobody: it is closed and empty."""
        with self._changed:
            while True:
                taken = [
                    waiter
                    for waiter in (self._waiting.popleft() for _ in range(min(most, len(self._waiting))))
                    if waiter.future.set_running_or_notify_cancel()
                ]
                if taken or (self.closed and not self._waiting):
                    return taken
                if not self._waiting:
                    self._changed.wait()

    def took(self, seconds: float, served: int) -> None:
        """What serving some together took; by it those who are sent away are told when to come back."""
        pace_s = seconds / served
        self._pace_s = pace_s if not self._pace_s else _PACE_MEMORY * self._pace_s + (1 - _PACE_MEMORY) * pace_s

    def close(self) -> None:
        """Nobody may join any more; those who wait are still served."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def _result(self, waiter: Waiter[Wanted], listens: Callable[[], bool] | None, deadline_s: float) -> Any:
        until, pause_s = waiter.asked_at + deadline_s, _LISTENS_AFTER_S
        while True:
            patience_s = max(0.0, until - time.perf_counter())
            if wait([waiter.future], patience_s if listens is None else min(patience_s, pause_s)).done:
                return waiter.future.result()
            pause_s = min(2 * pause_s, _LISTENS_EVERY_S)
            if time.perf_counter() >= until:
                self._leave(waiter)
                raise EngineUnavailable(
                    f"There was no answer within {deadline_s:g} seconds: too much is being asked at once.",
                    retry_after_s=self._clear_in_s(),
                )
            if listens is not None and not listens():
                self._leave(waiter)
                raise EngineUnavailable("Whoever asked is gone.", retry_after_s=1)

    def _leave(self, waiter: Waiter[Wanted]) -> None:
        waiter.future.cancel()  # no effect once it is being served
        with self._changed:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def _clear_in_s(self) -> int:
        """Whole seconds in which the line as it is will have been served, at least one."""
        return max(1, min(math.ceil(self.deadline_s), math.ceil(len(self._waiting) * self._pace_s)))
