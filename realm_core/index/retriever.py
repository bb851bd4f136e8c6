"""Retrieves rows of a snapshot for questions of a training: dense (REALM) or sparse (BM25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.index.bm25 import SparseRetriever as SparseRetriever
from realm_core.index.embedding import embed
from realm_core.index.generation import Generation
from realm_core.index.search import ExactSearch
from realm_core.model.checkpoint import Model
from realm_core.text.joins import join_query
from realm_core.text.wordpieces import Wordpieces


class Retriever(Protocol):
    """Finds blocks for questions."""

    def search(self, questions: Sequence[str], k: int) -> tuple[list[list[int]], list[list[float]]]:
        """Rows and scores of the k best blocks of each question, best first."""
        ...

    def rows(self, questions: Sequence[str], k: int) -> list[list[int]]:
        """The rows of `search`, without scores."""
        ...


class DenseRetriever:
    """Exact maximum inner product search of Embed_input(x) in the generation's vectors, on the model's device."""

    def __init__(self, model: Model, generation: Generation) -> None:
        self._model = model
        self._wordpieces = Wordpieces.default()
        self._search = ExactSearch(generation.vectors_ND, model.query.dense.weight.device)

    def search(self, questions: Sequence[str], k: int) -> tuple[list[list[int]], list[list[float]]]:
        """Rows and scores of the k best blocks of each question, best first: f(x, z)."""
        joined = join_query(self._wordpieces, questions, self._model.config.query_wordpieces)
        with torch.inference_mode():
            rows_BK, scores_BK = self._search.search(embed(self._model.query, joined), k)
        return rows_BK.tolist(), scores_BK.tolist()

    def rows(self, questions: Sequence[str], k: int) -> list[list[int]]:
        return self.search(questions, k)[0]


def check_manifest_fits(model: Model, manifest: Mapping[str, Any], snapshot: Snapshot) -> None:
    """`RealmError` unless a generation was built from this snapshot with this model's block embedder."""
    name = manifest.get("generation")
    if manifest.get("block_hash") != model.block_hash:
        raise RealmError(
            f"The index {name} was built with another block embedder "
            f"({manifest.get('block_hash')}) than the model's ({model.block_hash}); "
            "build an index for this model."
        )
    if manifest.get("snapshot_id") != snapshot.snapshot_id:
        raise RealmError(
            f"The index {name} is of corpus snapshot {manifest.get('snapshot_id')}, "
            f"not of {snapshot.snapshot_id}; build an index of this corpus."
        )
