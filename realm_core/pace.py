"""Points at which long work may rest, so that other computations are hardly delayed.

    with low_priority(): ...   inside, in this thread, work rests at the points below
    may_rest()                 between two parts of a long loop; without effect in other threads

`computing` knows whether other work is computed (`set_idle_wait`). Without it nothing rests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STEP_S = 0.005  # of work, before it rests
_RESTS = 10  # times as long as it has worked, at most and in total, while other work is computed

_own = threading.local()
_wait_for_quiet: Callable[[float], object] = lambda most_s: None  # noqa: E731


def set_idle_wait(wait_for_quiet: Callable[[float], object]) -> None:
    """Use this function to rest: it returns as soon as nothing is computed, or after the given seconds."""
    global _wait_for_quiet
    _wait_for_quiet = wait_for_quiet


class Rests:
    """Work rests after every few milliseconds, as long as other work is computed.

    Its processor time delays the others. If these leave pauses it works only in them: rest that was not needed there is
    available later, when there are none. If there never are, each of the others is delayed by a small part.
    """

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self._worked_s = self._rested_s = 0.0

    def rest(self) -> None:
        """Rest, unless the work has only just started."""
        now = time.perf_counter()
        if now - self._since > _STEP_S:
            self._worked_s += now - self._since
            _wait_for_quiet(_RESTS * self._worked_s - self._rested_s)
            self._since = time.perf_counter()
            self._rested_s += self._since - now


@contextmanager
def low_priority() -> Iterator[None]:
    """Inside, `may_rest` rests in this thread; nested uses share the rests of the outermost one."""
    if getattr(_own, "rests", None) is not None:
        yield
        return
    _own.rests = Rests()
    try:
        yield
    finally:
        _own.rests = None


def may_rest() -> None:
    """Rest, if inside `low_priority`."""
    if (rests := getattr(_own, "rests", None)) is not None:
        rests.rest()
