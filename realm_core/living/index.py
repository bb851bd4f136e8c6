"""Search in a corpus state: what `index/search.py` offers, over a base and its segments.

    search(queries_BD, k, lexical) → rows_BK (int64), scores_BK (float32), highest first

Rows are those of `CorpusView`; of equal scores the lower row comes first. The result equals that of a corpus built from
the documents of the state, or of those that pass a filter.

Legend: B queries, N rows, V stored blocks of the base, M rows of segments, D dimension, K results.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from realm_core.arrays import Mask
from realm_core.errors import RealmError
from realm_core.index.allowed_rows import AllowedRows
from realm_core.index.choice import WantedSearch
from realm_core.index.postings import MOST_ROWS, LexicalPart
from realm_core.index.search import ExactSearch, merged
from realm_core.living.documents import Changes, Filter
from realm_core.living.editing import Embed, tried
from realm_core.living.layer import Layer
from realm_core.living.search import BaseSearch, open_base
from realm_core.living.state import BASE, Base, LivingState
from realm_core.living.store import Store
from realm_core.living.view import CorpusView
from realm_core.model.checkpoint import Model


class LivingIndex:
    """A corpus state, ready to be searched; immutable and thread-safe.

    corpus: its texts, by the rows found. `open` creates one, `at` one of a later state, `tried` one of an edit that is
    not made, `where` one restricted by a filter.
    """

    def __init__(
        self,
        store: Store | None,
        corpus: CorpusView,
        base: tuple[Layer, BaseSearch] | None,
        segment_vectors: dict[str, Tensor],
        device: torch.device,
        wanted: WantedSearch,
        rows_N: Mask,
    ) -> None:
        self.corpus = corpus
        self._store, self._base, self._device, self._wanted = store, base, device, wanted
        self._segment_vectors = segment_vectors
        base_rows = 0 if base is None else len(base[0])
        allowed, self._row_of_V = _stored(rows_N[:base_rows], base)
        self._allowed = AllowedRows(torch.from_numpy(allowed), device if base is None else base[1].device)
        self._segment_rows_M = torch.from_numpy(np.flatnonzero(rows_N[base_rows:]))
        self._segments: ExactSearch | None = None
        if len(self._segment_rows_M):
            vectors_MD = torch.cat([segment_vectors[name] for name in corpus.state.segments])
            self._segments = ExactSearch(vectors_MD[self._segment_rows_M], device)
        self._segment_rows_M += base_rows
        self._first_of_segments = base_rows
        self.rows = self._allowed.count + len(self._segment_rows_M)

    @property
    def adds_lexical(self) -> bool:
        """Whether every block is scored, so that `lexical` can be added to the scores."""
        return len(self.corpus) <= MOST_ROWS and (self._base is None or isinstance(self._base[1], ExactSearch))

    @classmethod
    def open(
        cls,
        store: Store,
        state: LivingState,
        *,
        device: torch.device | None = None,
        search: WantedSearch = "auto",
        earlier: LivingIndex | None = None,
    ) -> LivingIndex:
        """Read and check a state. search: of the base's vectors, as for `open_base`. earlier: as of `at`."""
        return cls._of(store, store.view(state), device or torch.device("cpu"), search, earlier)

    @classmethod
    def of_base(cls, corpus: Path, index: Path, *, device: torch.device, search: WantedSearch) -> LivingIndex:
        """A snapshot and its generation, as they were published; `at` needs a store, and refuses."""
        layer = Layer.open(BASE, corpus, index)
        base = Base(layer.snapshot.snapshot_id, str(layer.vectors.manifest["generation"]))
        state = LivingState(str(layer.snapshot.manifest["name"]), layer.vectors.block_hash, base)
        return cls._of(None, CorpusView(state, [layer]), device, search, None)

    @classmethod
    def _of(
        cls,
        store: Store | None,
        corpus: CorpusView,
        device: torch.device,
        search: WantedSearch,
        earlier: LivingIndex | None,
    ) -> LivingIndex:
        base = None
        vectors: dict[str, Tensor] = {}
        for layer in corpus.layers:
            if layer.name == BASE:
                if earlier is not None and earlier._base is not None and earlier._base[0] is layer:
                    base = earlier._base
                else:
                    base = layer, open_base(layer.vectors.folder, device, search)
            else:
                known = None if earlier is None else earlier._segment_vectors.get(layer.name)
                vectors[layer.name] = layer.vectors.load() if known is None else known
        return cls(store, corpus, base, vectors, device, search, corpus.live_rows)

    def at(self, state: LivingState) -> LivingIndex:
        """Another state; with the same base it shares that in memory, and only new segments are read."""
        if self._store is None:
            raise RealmError("The engine was loaded without a living corpus.")
        return self.open(self._store, state, device=self._device, search=self._wanted, earlier=self)

    def tried(self, changes: Changes, embed: Embed) -> LivingIndex:
        """The state after an edit that is not made, in memory alone; raises as `edit` does."""
        return self._of(self._store, tried(self.corpus, changes, embed), self._device, self._wanted, self)

    def where(self, wanted: Filter) -> LivingIndex:
        """The same state, restricted to the blocks of documents that match a filter."""
        rows_N = self.corpus.passing_rows(wanted)
        return LivingIndex(
            self._store, self.corpus, self._base, self._segment_vectors, self._device, self._wanted, rows_N
        )

    def search(self, queries_BD: Tensor, k: int, lexical: LexicalPart | None = None) -> tuple[Tensor, Tensor]:
        """Rows and scores [B, min(k, `rows`)] on the CPU, highest first."""
        rows, scores = torch.empty(len(queries_BD), 0).long(), torch.empty(len(queries_BD), 0)
        if self._base is not None:
            layer, base = self._base
            if lexical is not None:
                assert isinstance(base, ExactSearch)
                added_BV = lexical.scores(layer.postings)
                rows, scores = base.search(queries_BD, k, self._allowed, added_BN=added_BV)
            else:
                rows, scores = base.search(queries_BD, k, self._allowed)
            if self._row_of_V is not None:
                rows = self._row_of_V[rows]
        if self._segments is not None:
            added_BM = None
            if lexical is not None:
                segments = (layer for layer in self.corpus.layers if layer.name != BASE)
                added_BS = torch.cat([lexical.scores(layer.postings) for layer in segments], dim=1)
                added_BM = added_BS[:, self._segment_rows_M - self._first_of_segments]
            places, own_scores = self._segments.search(queries_BD, k, added_BN=added_BM)
            rows = torch.cat([rows, self._segment_rows_M[places]], dim=1)
            scores = torch.cat([scores, own_scores], dim=1)
        return merged(rows, scores, k)


def _stored(rows_N: Mask, base: tuple[Layer, BaseSearch] | None) -> tuple[Mask, Tensor | None]:
    """The stored blocks of some rows of a base, no two of the same block: bool [V]; and the row of each, if another."""
    if base is None or base[0].stored_N is None:
        return rows_N, None
    chosen = np.flatnonzero(rows_N)
    stored, row_of_V = base[0].stored_N[chosen], np.zeros(len(base[1]), np.int64)
    row_of_V[stored] = chosen
    return np.isin(np.arange(len(base[1])), stored), torch.from_numpy(row_of_V)


def check_fits(model: Model, state: LivingState) -> None:
    """`RealmError` unless the state's vectors come from the model's block embedder."""
    if state.block_hash != model.block_hash:
        raise RealmError(
            f"The corpus {state.name} was embedded with another block embedder ({state.block_hash}) than the "
            f"model's ({model.block_hash}); build an index for this model."
        )
