"""Exact repeats: what was answered a short while ago is not computed again.

One store a deployment and process, in memory: what is loaded in its place begins with an empty one, and nothing that
answered before is told as if it answered now. Bounded by number and by age; time is that of a clock that never jumps.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

MOST: Final = 512  # answers, of some 30 KB each

Kept = TypeVar("Kept")


class Repeats(Generic[Kept]):
    """The latest answers by what was asked. keep_s: for how many seconds; 0: nothing is kept."""

    def __init__(self, keep_s: int) -> None:
        self._keep_s = keep_s
        self._kept: OrderedDict[Hashable, tuple[float, Kept]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, asked: Hashable) -> Kept | None:
        """What was kept for it and is not too old."""
        with self._lock:
            found = self._kept.get(asked)
            if found is None:
                return None
            kept_at, kept = found
            if time.monotonic() - kept_at < self._keep_s:
                return kept
            del self._kept[asked]
            return None

    def put(self, asked: Hashable, kept: Kept) -> None:
        """Keep it; the oldest gives way."""
        if self._keep_s:
            with self._lock:
                self._kept[asked] = (time.monotonic(), kept)
                self._kept.move_to_end(asked)
                if len(self._kept) > MOST:
                    self._kept.popitem(last=False)
