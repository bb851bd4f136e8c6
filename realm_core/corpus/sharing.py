"""Passages that several documents have: a snapshot stores a block once, with the first document of its title and text.

shared.npy, int64 [R, 4], has a row for each other document with such a block: its article row, the block's row, and
start and end in its own text; ascending by article, then by start. So a passage belongs to every document that has it,
and a filter finds it where any of them passes (`living/layer.py`). A document that repeats itself has its passage once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from realm_core.arrays import save_array
from realm_core.corpus.packing import Packer
from realm_core.corpus.records import block_id
from realm_core.corpus.repetition import IdPrefixes, id_prefixes
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tables import BLOCKS_SCHEMA, SHARED_FILE
from realm_core.text.wordpieces import Wordpieces

log = logging.getLogger(__name__)

Shared = np.ndarray[Any, np.dtype[np.int64]]  # [R, 4]
_PACKED_AT_ONCE: Final = 1000
_TITLES: Final = 1 << 62  # all of them


class SharedPassages:
    """Collects them while a snapshot is written, documents in order.

    recurring: prefixes of the ids that may recur. first: of these the row of the block and of its article.
    """

    def __init__(self, recurring: IdPrefixes) -> None:
        self._recurring = recurring
        self.first: dict[str, tuple[int, int]] = {}
        self._rows: list[tuple[int, int, int, int]] = []
        self._had: set[tuple[int, str]] = set()

    def stored(self, ids: Sequence[str], articles: Sequence[int], first_row: int) -> None:
        """Blocks that the snapshot stores, in consecutive rows."""
        for place in np.flatnonzero(np.isin(id_prefixes(ids), self._recurring)).tolist():
            self.first[ids[place]] = first_row + place, articles[place]

    def others(self, blocks: pa.RecordBatch | pa.Table) -> None:
        """Blocks, in `BLOCKS_SCHEMA`, with the ids of stored ones."""
        for columns in zip(*(blocks.column(name).to_pylist() for name in BLOCKS_SCHEMA.names), strict=True):
            self.other(*columns)

    def other(self, one: str, article: int, start: int, end: int) -> None:
        """An article's block with the id of a stored one."""
        row, owner = self.first[one]
        if article != owner and (article, one) not in self._had:
            self._had.add((article, one))
            self._rows.append((article, row, start, end))

    def table(self) -> Shared:
        rows_R4: Shared = np.array(self._rows, np.int64).reshape(-1, 4)
        return rows_R4[np.lexsort((rows_R4[:, 2], rows_R4[:, 0]))]

    def save(self, folder: Path) -> int:
        """Write the file, if there are any; returns their number."""
        if self._rows:
            save_array(folder / SHARED_FILE, self.table())
        return len(self._rows)


def shared_in(snapshot: Snapshot) -> Shared:
    """Those of a snapshot. One of earlier does not say; then articles of equal titles, which may share, are packed."""
    if snapshot.shared_R4 is not None:
        return snapshot.shared_R4
    titles = np.array(list(snapshot.titles(_TITLES)), np.object_)
    _, number_A, counts = np.unique(titles, return_inverse=True, return_counts=True)
    rows = np.flatnonzero(counts[number_A] > 1).tolist()
    if len(rows) > _PACKED_AT_ONCE:
        log.info("Looking for the passages that %s documents of equal titles share.", f"{len(rows):,}")
    found = SharedPassages(np.array([], np.uint64))
    packer = Packer(Wordpieces.default())
    for first in range(0, len(rows), _PACKED_AT_ONCE):
        own = rows[first : first + _PACKED_AT_ONCE]
        articles = [snapshot.article(row) for row in own]
        for row, article, spans in zip(own, articles, packer.pack(articles), strict=True):
            for start, end in spans:
                one = block_id(article.title, article.text[start:end])
                if (stored := snapshot.row_of(one)) is not None:
                    found.first[one] = stored, snapshot.block(stored).article_row
                    found.other(one, row, start, end)
    return found.table()
