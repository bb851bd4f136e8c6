"""The line of those who wait for the engine: bounded, first come, first served, nobody for longer than the deadline.

    line.ask(request)    the asker's thread: stand in the line, wait, return the result
    line.take(most)      the engine's thread: who is next, together

Whoever gives up because the deadline has passed leaves the line at once; whoever does not listen any more, when the
engine next takes somebody. No work is done for them, and nothing of them is kept. Time is that of a clock that never
jumps.
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

_PACE_MEMORY = 0.8  # weight of what was known before a batch ended

Wanted = TypeVar("Wanted")


@dataclass(frozen=True, eq=False)
class Waiter(Generic[Wanted]):
    """One who waits. listens: whether the asker still does. asked_at: of `time.perf_counter`."""

    wanted: Wanted
    listens: Callable[[], bool] = lambda: True
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

        deadline_s: instead of the line's. listens: says whether the asker still waits for it; called by another thread.
        EngineUnavailable where the line is full, the deadline has passed or nobody listens; what the work raised.
        """
        waiter = Waiter(wanted, listens) if listens else Waiter(wanted)
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
        return self._result(waiter, deadline_s or self.deadline_s)

    def take(self, most: int) -> list[Waiter[Wanted]] | None:
        """Wait until somebody waits, and take up to `most` of them out of the line: none where all of them were gone.

        None: it is closed and empty.
        """
        with self._changed:
            while not self._waiting and not self.closed:
                self._changed.wait()
            waiting = list(self._waiting)
        # All at once, and here: a hundred threads that wake to look keep the one that computes waiting.
        for waiter in waiting:
            if not waiter.listens() and self._leaves(waiter):
                waiter.future.set_exception(EngineUnavailable("Whoever asked is gone.", retry_after_s=1))
        with self._changed:
            if self.closed and not self._waiting:
                return None
            return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def took(self, seconds: float, served: int) -> None:
        """What serving some together took; by it those who are sent away are told when to come back."""
        pace_s = seconds / served
        self._pace_s = pace_s if not self._pace_s else _PACE_MEMORY * self._pace_s + (1 - _PACE_MEMORY) * pace_s

    def close(self) -> None:
        """Nobody may join any more; those who wait are still served."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def _result(self, waiter: Waiter[Wanted], deadline_s: float) -> Any:
        wait([waiter.future], max(0.0, waiter.asked_at + deadline_s - time.perf_counter()))
        if waiter.future.done():
            return waiter.future.result()
        self._leaves(waiter)
        raise EngineUnavailable(
            f"There was no answer within {deadline_s:g} seconds: too much is being asked at once.",
            retry_after_s=self._clear_in_s(),
        )

    def _leaves(self, waiter: Waiter[Wanted]) -> bool:
        """Whether it was still in the line, where it is no longer."""
        with self._changed:
            with suppress(ValueError):
                self._waiting.remove(waiter)
                return True
            return False

    def _clear_in_s(self) -> int:
        """Whole seconds in which the line as it is will have been served, at least one."""
        return max(1, min(math.ceil(self.deadline_s), math.ceil(len(self._waiting) * self._pace_s)))
