"""Ids that occur more than once, found among any number of them in little memory.

prefixes of all ids, 8 bytes each → those that recur → only ids with such a prefix are remembered
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from realm_core.arrays import Mask

IdPrefixes = np.ndarray[Any, np.dtype[np.uint64]]


class FirstOnly:
    """Keeps the first of several equal ids; remembers only ids whose prefix recurs."""

    def __init__(self, recurring_prefixes: IdPrefixes) -> None:
        self._recurring = recurring_prefixes
        self._seen: set[str] = set()

    def mask(self, ids: Sequence[str], considered: Mask) -> Mask:
        """`considered`, with False for every id that was seen before."""
        kept = considered.copy()
        for position in np.flatnonzero(np.isin(id_prefixes(ids), self._recurring) & considered).tolist():
            if ids[position] in self._seen:
                kept[position] = False
            self._seen.add(ids[position])
        return kept


def id_digest(text: str) -> str:
    """An id of any form as 32 hex digits."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def id_prefixes(ids: Sequence[str]) -> IdPrefixes:
    """The first 8 of the 16 bytes of each id, in hex digits, as numbers that sort like the ids."""
    return np.frombuffer(bytes.fromhex("".join(ids)), ">u8")[::2].astype(np.uint64)


def recurring(several: Sequence[IdPrefixes]) -> IdPrefixes:
    """The prefixes that occur more than once, ascending."""
    ascending = np.sort(np.concatenate([np.array([], np.uint64), *several]))
    return np.unique(ascending[1:][ascending[1:] == ascending[:-1]])
