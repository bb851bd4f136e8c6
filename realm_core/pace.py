"""Where long work may rest, so that others who need the processors hardly notice it.

    with others_first(): ...   what is done within, in this thread, rests at the places below
    may_rest()                 between two pieces of a long loop; in other threads nothing happens

`computing` knows when others are computed for (`rest_by`). In a process without it nobody is, and nothing rests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STEP_S = 0.005  # of work, before it rests
_RESTS = 10  # times as long as it has worked, at most and in all, while others are computed for

_own = threading.local()
_wait_for_quiet: Callable[[float], object] = lambda most_s: None  # noqa: E731


def rest_by(wait_for_quiet: Callable[[float], object]) -> None:
    """From now on rest by this: it returns as soon as nobody is computed for, or after the seconds that it is given."""
    global _wait_for_quiet
    _wait_for_quiet = wait_for_quiet


class Rests:
    """Work rests behind every few milliseconds, as long as others are computed for.

    What it takes of a processor is taken from them. Where there are pauses between them it works in these alone: what
    it need not rest there, it may rest longer where there are none. Where there never are, each waits for a small part.
    """

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self._worked_s = self._rested_s = 0.0

    def rest(self) -> None:
        """Unless it has only just begun to work."""
        now = time.perf_counter()
        if now - self._since > _STEP_S:
            self._worked_s += now - self._since
            _wait_for_quiet(_RESTS * self._worked_s - self._rested_s)
            self._since = time.perf_counter()
            self._rested_s += self._since - now


@contextmanager
def others_first() -> Iterator[None]:
    """Within, `may_rest` rests in this thread; the rests of what is within another's are the other's."""
    if getattr(_own, "rests", None) is not None:
        yield
        return
    _own.rests = Rests()
    try:
        yield
    finally:
        _own.rests = None


def may_rest() -> None:
    """Rest, if whoever began this work said so."""
    if (rests := getattr(_own, "rests", None)) is not None:
        rests.rest()
