"""Where long work may rest, so that others who need the processors hardly notice it.

    with resting(rest): ...    what is done within, in this thread, rests at the places below
    may_rest()                 between two pieces of a long loop: calls `rest`; in other threads nothing happens

Who rests how long is said in `computing`; here is what also those can use that need no torch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_own = threading.local()


@contextmanager
def resting(rest: Callable[[], object]) -> Iterator[None]:
    """Within, `may_rest` calls `rest` in this thread."""
    before = getattr(_own, "rest", None)
    _own.rest = rest
    try:
        yield
    finally:
        _own.rest = before


def may_rest() -> None:
    """Rest, if whoever began this work said so."""
    if (rest := getattr(_own, "rest", None)) is not None:
        rest()
