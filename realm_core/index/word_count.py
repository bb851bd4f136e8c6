"""How far this process is with counting the wordpieces of a corpus, which takes minutes of a large one, once.

A server does not answer from that corpus before it is done, so it says how far it is: in its log, and to whoever asks.
Loads no torch.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from realm_core.runs.activity import Activity

_LOG_EVERY_S: Final = 15.0
_shares: dict[int, float] = {}  # from 0 to 1, by the id of the count

log = logging.getLogger(__name__)


def share_counted() -> float | None:
    """Of the corpus that is counted in this process, from 0 to 1; None: none is."""
    return min(_shares.copy().values(), default=None)


class WordCount(Activity):
    """One count. What it says is in the log; `close` it."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self._logged_at = 0.0

    def say(self, message: str) -> None:
        """Log a message."""
        log.info("%s", message)

    def progress(self, done: int, total: int | None, unit: str, message: str = "") -> None:
        """Note that `done` of `total` are counted, and log it now and then."""
        if not total:
            return
        _shares[id(self)] = done / total
        if time.monotonic() - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = time.monotonic()
            log.info("%s of %s %s", f"{done:,}", f"{total:,}", unit)

    def close(self) -> None:
        """It is done, or has failed."""
        _shares.pop(id(self), None)
