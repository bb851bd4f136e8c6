"""Approximate search in an inverted file of FAISS that is stored beside a generation's vectors.

    search(queries_BD, k) → c × k candidates from the codes in some lists → their exact inner products → the k best

Scores are those of exact search; the rows that are found may differ. The lists are memory-mapped: often searched ones
stay in memory as far as there is room, and the system may drop them at any time.

Legend: B queries, N rows, C candidates, D dimension, K results, M allowed rows.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from realm_core.arrays import Rows, open_array
from realm_core.computing import compute_each
from realm_core.errors import RealmError, quoted
from realm_core.index.allowed_rows import AllowedRows, Bits
from realm_core.index.choice import SearchChoice, SearchKind, search_of
from realm_core.index.manifest import MANIFEST_FILE, read_manifest, verified_file
from realm_core.index.stored_rows import StoredRows

log = logging.getLogger(__name__)

INDEX_FILE = "approximate.faiss"  # centroids and code books
LISTS_FILE = "approximate.ivfdata"  # codes and row numbers
PLACES_FILE = "approximate.npy"  # uint64 [L, 3]: length, capacity and offset of each list
_ROWS_PER_CANDIDATE = 20  # in the probed lists, for questions that want many rows


class ApproximateSearch:
    """The stored index of one generation; used by several threads at once. `open_approximate` makes one.

    Each query finds min(k, N) rows: if its lists have fewer, it searches all lists.
    """

    def __init__(self, folder: Path, choice: SearchChoice, stored: StoredRows) -> None:
        import faiss

        self.choice, self.device = choice, torch.device("cpu")
        self._stored = stored
        places_L3 = open_array(folder / PLACES_FILE, np.uint64, (choice.lists, 3))
        if (rows := int(places_L3[:, 0].sum())) != len(stored):
            raise RealmError(f"{folder / PLACES_FILE} has {rows:,} rows, not {len(stored):,}.")
        try:
            self._index = faiss.read_index(str(folder / INDEX_FILE))
            lists = faiss.OnDiskInvertedLists(choice.lists, self._index.code_size, str(folder / LISTS_FILE))
            faiss.memcpy(lists.lists.data(), faiss.swig_ptr(np.ascontiguousarray(places_L3)), places_L3.nbytes)
            lists.totsize, lists.read_only = (folder / LISTS_FILE).stat().st_size, True
            lists.do_mmap()
            self._index.replace_invlists(lists, True)
        except (RuntimeError, AssertionError) as error:
            raise RealmError(f"{folder / INDEX_FILE} cannot be read: {quoted(str(error))}.") from None
        lists.this.disown()
        lists.prefetch_nthread = 0  # its 32 threads would read ahead even what is in memory, and slow down all others
        self._index.ntotal = rows

    def __len__(self) -> int:
        return len(self._stored)

    def search(self, queries_BD: Tensor, k: int, allowed: AllowedRows | None = None) -> tuple[Tensor, Tensor]:
        """Rows and exact scores [B, min(k, N)] on the CPU, highest first; min(k, M) if only some are allowed."""
        rows = len(self) if allowed is None else allowed.count
        k = min(k, rows)
        if k == 0 or not len(queries_BD):
            return torch.empty(len(queries_BD), k).long(), torch.empty(len(queries_BD), k)
        if allowed is not None and allowed.few_M is not None:
            return self._stored.nearest(queries_BD, k, allowed.few_M)
        only = None if allowed is None else allowed.bits
        lists, wanted = self._index.nlist, k * self.choice.candidates
        enough = math.ceil(_ROWS_PER_CANDIDATE * wanted * lists / rows)
        probes = min(lists, max(enough, math.ceil(self.choice.probes * len(self) / rows)))
        # One query in each piece: FAISS has its own threads for several, which would stand in the way of torch's.
        queries = queries_BD.float().cpu().contiguous().split(1)
        found = list(compute_each([partial(self._search_one, query_1D, k, probes, only) for query_1D in queries]))
        return torch.cat([rows_1K for rows_1K, _ in found]), torch.cat([scores_1K for _, scores_1K in found])

    def _search_one(self, query_1D: Tensor, k: int, probes: int, only: Bits | None) -> tuple[Tensor, Tensor]:
        rows_C = self._candidates(query_1D, k, probes, only)
        if len(rows_C) < k:
            rows_C = self._candidates(query_1D, k, self._index.nlist, only)
        return self._stored.nearest(query_1D, k, torch.from_numpy(rows_C))

    def _candidates(self, query_1D: Tensor, k: int, probes: int, only: Bits | None) -> Rows:
        """Rows [C]: as many as are to be scored, or all of the probed lists."""
        import faiss

        selector = None if only is None else faiss.IDSelectorBitmap(only)
        parameters = faiss.SearchParametersIVF(nprobe=probes, sel=selector)
        wanted = min(k * self.choice.candidates, len(self))
        rows_C: Rows = self._index.search(query_1D.numpy(), wanted, params=parameters)[1][0]
        return rows_C[rows_C >= 0]


def open_approximate(folder: Path, wanted: SearchKind = "auto") -> ApproximateSearch | None:
    """The stored search of a generation, its files verified; None if it is to be searched exactly.

    wanted: "auto" follows the generation's manifest. `RealmError` for "ivf" if it has no stored search.
    """
    manifest = read_manifest(folder)
    try:
        choice = search_of(manifest)
        if wanted == "ivf" and choice.kind == "exact":
            raise RealmError(f"The index {folder.name} has no approximate search; build one with --search ivf.")
        if wanted == "exact" or choice.kind == "exact":
            log.info("The index %s is searched exactly (%s).", folder.name, choice.reason)
            return None
        for file in [*manifest["search"]["files"], *manifest["shards"]]:
            verified_file(folder, file)
        search = ApproximateSearch(folder, choice, StoredRows.of(folder, manifest))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RealmError(f"{folder / MANIFEST_FILE} does not describe an index: {quoted(error)}.") from None
    log.info("The index %s is searched approximately (%s).", folder.name, choice.reason)
    return search
