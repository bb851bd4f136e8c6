"""Exact repeats: what was answered a short while ago is not computed again.

One store for each loaded pair and process, in memory: the pair loaded after it begins with an empty one, so that
no earlier pair's answer is given as its own. Bounded by number and by age, of a clock that never jumps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from cachetools import TTLCache

MOST: Final = 512  # answers, of some 30 KB each

Kept = TypeVar("Kept")


class Repeats(Generic[Kept]):
    """The latest answers by what was asked. keep_s: for how many seconds; 0: nothing is kept."""

    def __init__(self, keep_s: int) -> None:
        self._kept: TTLCache[Hashable, Kept] = TTLCache(maxsize=MOST, ttl=keep_s, timer=time.monotonic)
        self._lock = threading.Lock()

    def get(self, asked: Hashable) -> Kept | None:
        """What was kept for it and is not too old."""
        with self._lock:
            return self._kept.get(asked)

    def put(self, asked: Hashable, kept: Kept) -> None:
        """Keep it; the least recently used gives way."""
        with self._lock:
            self._kept[asked] = kept
