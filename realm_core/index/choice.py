"""How the vectors of an index are searched: exactly, or in a stored IVF index. Loads neither torch nor FAISS.

The build chooses once and writes the choice into the generation's manifest with its reason. A server of the index may
override it (`WantedSearch`), or search in Milvus.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from realm_core.errors import RealmError, quoted

SearchKind = Literal["auto", "exact", "ivf"]

EXACT_ROWS = 1_000_000  # a search of so many × 256 in float32 reads 1 GB, about 0.1 s on two cores
_EXACT_SHARE = 0.5  # of the memory, for vectors in float32
_SCALAR_SHARE = 0.75  # of the memory, for codes of 8 bits a number; they are mapped, so a part may stay on the disk
_ROWS_PER_LIST = 39  # at least, so that k-means has something to average
_GRAPH_LISTS = 1 << 16  # from so many lists on, a graph over the centroids finds those of a query
_PQ_ROWS = 1 << 14  # at least: each of a product quantiser's 256 codewords is the mean of some rows
# Measured with benchmarks/any_size.py; docs/results.md has the figures.
_PROBED_ROWS = 40_000  # codes that a query is compared with, some milliseconds of one core
_LEAST_PROBES = 24
_CANDIDATES = {"SQ": 4, "PQ": 40}  # of a code's kind; the coarser it is, the more are scored exactly
_CGROUP = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class MilvusServer:
    """A server of Milvus that holds the vectors of indexes (`milvus.py`). `RealmError` for any other form of `uri`.

    uri: http://HOST:PORT or https://…, and /NAME for another of its databases than the default one.
    token: USER:PASSWORD or a key; empty if it asks for none.
    """

    uri: str
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        try:
            url = urlsplit(self.uri)
            fits = url.scheme in ("http", "https") and url.hostname is not None and url.port is not None
        except ValueError:
            fits = False
        if not fits or not re.fullmatch(r"/?\w*", url.path) or url.query or url.fragment or "@" in url.netloc:
            raise RealmError(
                "The address of Milvus must read like http://host:19530 or https://host:19530/database, without a "
                f"password, not {quoted(self.uri)}."
            )


WantedSearch = SearchKind | MilvusServer


@dataclass(frozen=True)
class SearchChoice:
    """kind: of search. reason: why, in a sentence. wanted: the requested kind, which a fold of the corpus repeats.

    lists, code: of the inverted file: its centroids, and how vectors are stored ("SQ8", "PQ64").
    probes: lists that a query searches. candidates: rows that are scored exactly for each row of the result.
    """

    kind: Literal["exact", "ivf"]
    reason: str
    wanted: SearchKind
    lists: int = 0
    code: str = ""
    probes: int = 0
    candidates: int = 0

    @property
    def has_graph(self) -> bool:
        """Whether centroids are found through an HNSW graph rather than by scoring them all."""
        return self.lists >= _GRAPH_LISTS


def choose(rows: int, dimension: int, wanted: SearchKind = "auto", *, memory_bytes: int | None = None) -> SearchChoice:
    """How to search so many vectors. memory_bytes: of the machine (default: this one's)."""
    memory = memory_bytes or machine_memory_bytes()
    exact_bytes = rows * dimension * 4
    size = _in_words(exact_bytes)
    few, fits = rows <= EXACT_ROWS, exact_bytes <= memory * _EXACT_SHARE
    if wanted == "exact" or (wanted == "auto" and few and fits):
        return _exact(rows, size, wanted)
    lists = _lists(rows)
    code = _code(rows, dimension, memory)
    if wanted == "ivf":
        why = f", as it was set: {rows:,} blocks would take {size} exactly"
    elif not fits:
        why = f": {rows:,} blocks would take {size} exactly, of {_in_words(memory)}"
    else:
        why = f": {rows:,} blocks are more than the {EXACT_ROWS:,} that are searched exactly"
    return SearchChoice(
        "ivf",
        f"IVF{lists},{code}{why}",
        wanted,
        lists=lists,
        code=code,
        probes=min(lists, max(_LEAST_PROBES, math.ceil(_PROBED_ROWS * lists / rows))),
        candidates=_CANDIDATES[code[:2]],
    )


def search_of(manifest: Mapping[str, Any]) -> SearchChoice:
    """The choice in a generation's manifest; exact search if it has none. TypeError if it is damaged."""
    recorded = dict(manifest.get("search") or {})
    if not recorded:
        return _exact(int(manifest["rows"]), _in_words(int(manifest["rows"]) * int(manifest["dim"]) * 4), "auto")
    recorded.pop("files", None)
    return SearchChoice(**recorded)


def machine_memory_bytes() -> int:
    """The memory that this process may use: the machine's, or its container's limit."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # "max" where there is no limit
        memory = min(memory, int(_CGROUP.read_text()))
    return memory


def _exact(rows: int, size: str, wanted: SearchKind) -> SearchChoice:
    reason = ", as it was set" if wanted == "exact" else ""
    return SearchChoice("exact", f"exact{reason}: {rows:,} blocks take {size}", wanted)


def _lists(rows: int) -> int:
    """A power of two near 2√N, with enough rows in each list."""
    wanted = 1 << max(0, round(math.log2(2 * math.sqrt(max(1, rows)))))
    most = 1 << max(0, math.floor(math.log2(max(1, rows // _ROWS_PER_LIST))))
    return min(wanted, most)


def _code(rows: int, dimension: int, memory: int) -> str:
    """Scalar quantisation to 8 bits, or a byte for every four numbers where that would not fit."""
    if rows * dimension <= memory * _SCALAR_SHARE or rows < _PQ_ROWS or dimension % 4:
        return "SQ8"
    return f"PQ{dimension // 4}"


def _in_words(count: int) -> str:
    """Bytes as "10 MB" or "13.3 GB"."""
    if count < 10**9:
        return f"{max(1, round(count / 10**6)):,} MB"
    return f"{count / 10**9:,.1f} GB".replace(".0 GB", " GB")
