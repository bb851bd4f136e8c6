"""Retrieves rows of a snapshot for questions: dense (REALM) or sparse (BM25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Protocol

import torch
from torch import Tensor

from realm_core.corpus.records import Block
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.index.bm25 import SparseRetriever as SparseRetriever
from realm_core.index.embedding import embed
from realm_core.index.generation import Generation
from realm_core.index.lexical import candidates, compared, ranked_again
from realm_core.index.postings import MOST_ROWS, LexicalPart, Postings
from realm_core.index.proximity import best_with_proximity
from realm_core.index.search import ExactSearch
from realm_core.model.checkpoint import Model
from realm_core.text.joins import join_query
from realm_core.text.spelling import Spelling, meant
from realm_core.text.wordpieces import Wordpieces


class Retriever(Protocol):
    """Finds blocks for questions."""

    def search(self, questions: Sequence[str], k: int) -> tuple[list[list[int]], list[list[float]]]:
        """Rows and scores of the k best blocks of each question, best first."""
        ...

    def rows(self, questions: Sequence[str], k: int) -> list[list[int]]:
        """The rows of `search`, without scores."""
        ...

    def read_as(self, questions: Sequence[str]) -> list[str]:
        """The questions as searched for: with misspelt words corrected, if the retriever does that."""
        ...


class DenseRetriever:
    """Exact maximum inner product search of Embed_input(x) in the generation's vectors, on the model's device.

    snapshot: if it is given, the model's lexical part is added to f(x, z), as when it answers.
    """

    def __init__(self, model: Model, generation: Generation, snapshot: Snapshot | None = None) -> None:
        self._model, self._snapshot = model, snapshot
        self._wordpieces = Wordpieces.default()
        self._search = ExactSearch(generation.vectors_ND, model.query.dense.weight.device)

    @cached_property
    def _postings(self) -> Postings | None:
        """The wordpieces of all blocks, where all are scored."""
        if self._snapshot is None or len(self._snapshot) > MOST_ROWS:
            return None
        return Postings.of(self._snapshot)

    def search(self, questions: Sequence[str], k: int) -> tuple[list[list[int]], list[list[float]]]:
        """Rows and scores of the k best blocks of each question, best first: f(x, z), or the prior's logit."""
        weight = self._model.config.lexical_weight
        joined = join_query(self._wordpieces, questions, self._model.config.query_wordpieces)
        with torch.inference_mode():
            queries_BD = embed(self._model.query, joined)
            if self._postings is not None:
                return self._search_words(questions, queries_BD, k)
            if self._snapshot is None:
                rows_BK, scores_BK = self._search.search(queries_BD, k)
                return rows_BK.tolist(), scores_BK.tolist()
            rows_BC, scores_BC = self._search.search(queries_BD, candidates(k))
        rows, scores = rows_BC.tolist(), scores_BC.tolist()
        found = []
        for question, own_rows, own_scores in zip(questions, rows, scores, strict=True):
            blocks = [self._snapshot.block(row) for row in own_rows]
            order, sums = ranked_again(question, blocks, own_scores, weight)
            found.append(([own_rows[place] for place in order[:k]], sums[:k]))
        return [own for own, _ in found], [own for _, own in found]

    def _search_words(
        self, questions: Sequence[str], queries_BD: Tensor, k: int
    ) -> tuple[list[list[int]], list[list[float]]]:
        """`search` with the lexical scores of all blocks."""
        assert self._snapshot is not None and self._postings is not None
        weight = self._model.config.lexical_weight
        added_BN = LexicalPart.of(questions, weight).scores(self._postings)

        def best(places: list[int], counts: list[int]) -> list[tuple[list[int], list[float]]]:
            rows_BM, scores_BM = self._search.search(queries_BD[places], max(counts), added_BN[places])
            pairs = zip(rows_BM.tolist(), scores_BM.tolist(), counts, strict=True)
            return [(rows[:count], scores[:count]) for rows, scores, count in pairs]

        ks = [k] * len(questions)
        if not weight:
            found = best(list(range(len(questions))), ks)
        else:
            found = best_with_proximity(questions, ks, best, self._snapshot.block)
        return [rows for rows, _ in found], [scores for _, scores in found]

    def rows(self, questions: Sequence[str], k: int) -> list[list[int]]:
        return self.search(questions, k)[0]

    def read_as(self, questions: Sequence[str]) -> list[str]:
        """The questions with misspelt words corrected, as when the model answers."""
        if self._snapshot is None:
            return list(questions)
        spelling = Spelling([self._snapshot.title_words])
        found = []
        for question in questions:
            readings = spelling.readings(question)
            found.append(readings[meant(readings, partial(self._nearest, [one.text for one in readings]))].text)
        return found

    def _nearest(self, texts: Sequence[str], ks: Sequence[int]) -> list[tuple[list[Block], list[float]]]:
        """The best blocks of each text, as `compared`."""
        assert self._snapshot is not None
        joined = join_query(self._wordpieces, texts, self._model.config.query_wordpieces)
        with torch.inference_mode():
            rows_RK, scores_RK = self._search.search(embed(self._model.query, joined), max(ks))
        return [
            compared([self._snapshot.block(row) for row in rows[:k]], scores[:k])
            for rows, scores, k in zip(rows_RK.tolist(), scores_RK.tolist(), ks, strict=True)
        ]


def check_fit(model: Model, generation: Generation, snapshot: Snapshot) -> None:
    """`RealmError` unless the generation was built from this snapshot with this model's block embedder."""
    check_manifest_fits(model, generation.manifest, snapshot)


def check_manifest_fits(model: Model, manifest: Mapping[str, Any], snapshot: Snapshot) -> None:
    """`check_fit` for a generation of which only the manifest has been read."""
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
