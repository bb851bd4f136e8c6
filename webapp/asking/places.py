"""The limit on concurrent batches: how many a process answers at a time.

A batch holds one of the server's threads until its last answer, a stream perhaps for minutes; this limit leaves the
other threads for single questions.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Final

from webapp.serving.engine import EngineUnavailable

_BATCHES: Final = threading.BoundedSemaphore(8)
_STREAMS: Final = threading.BoundedSemaphore(4)  # batches of these that are streamed
_RETRY_S: Final = 10


def batch_place(*, streamed: bool = False) -> ExitStack:
    """A batch's place among the concurrent ones, until it is closed; EngineUnavailable: none is free."""
    with ExitStack() as held:
        for places in (_BATCHES, _STREAMS) if streamed else (_BATCHES,):
            if not places.acquire(blocking=False):
                raise EngineUnavailable("Several batches are being answered already.", retry_after_s=_RETRY_S)
            held.callback(places.release)
        return held.pop_all()
