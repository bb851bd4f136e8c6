"""Exact repeats: recent answers are returned without computing them again.

One store per loaded pair and process, in memory: a newly loaded pair starts with an empty store, so it never returns an
earlier pair's answer. Bounded by number and by age, measured with a monotonic clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from cachetools import TTLCache

MOST: Final = 512  # answers, of some 30 KB each

AnswerT = TypeVar("AnswerT")


class Repeats(Generic[AnswerT]):
    """The latest answers by request. keep_s: seconds to keep them; 0: nothing is kept."""

    def __init__(self, keep_s: int) -> None:
        self._kept: TTLCache[Hashable, AnswerT] = TTLCache(maxsize=MOST, ttl=keep_s, timer=time.monotonic)
        self._lock = threading.Lock()

    def get(self, asked: Hashable) -> AnswerT | None:
        """The kept answer, if it is not too old."""
        with self._lock:
            return self._kept.get(asked)

    def put(self, asked: Hashable, kept: AnswerT) -> None:
        """Store an answer; the least recently used one is evicted."""
        with self._lock:
            self._kept[asked] = kept
