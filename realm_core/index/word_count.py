"""The progress of this process in counting the wordpieces of a corpus, which takes minutes of a large one, once.

A server does not answer from a corpus before its count is done, so it reports the progress: in its log, and to clients.
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
    """The share counted in this process, from 0 to 1; None: no count is running."""
    return min(_shares.copy().values(), default=None)


class WordCount(Activity):
    """One count. It writes to the log; `close` it."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self._logged_at = 0.0

    def say(self, message: str) -> None:
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
        """End a count, done or failed."""
        _shares.pop(id(self), None)
