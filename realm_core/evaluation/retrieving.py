"""The blocks of many questions at once, to be read: as the engine finds them, or by BM25."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from realm_core.corpus.store import Snapshot
from realm_core.index.bm25 import SparseRetriever
from realm_core.model.checkpoint import Model
from realm_core.serving.corpus import ServedCorpus, Wanted, best
from realm_core.serving.reading import SearchResult
from realm_core.serving.retrieval import AskedQuestion, as_meant


class Retrieving(Protocol):
    """Finds blocks for questions."""

    def find(self, questions: Sequence[str], k: int, *, as_typed: bool = True) -> list[SearchResult]:
        """The k best blocks of each question. as_typed: misspelt words are not corrected."""
        ...


class EngineRetrieving:
    """Finds what the engine would. model: its query embedder ready for inference."""

    def __init__(self, model: Model, corpus: ServedCorpus) -> None:
        self._query, self._config, self._corpus = model.query, model.config, corpus

    def find(self, questions: Sequence[str], k: int, *, as_typed: bool = True) -> list[SearchResult]:
        config, wanted = self._config, Wanted(k)
        asked = [AskedQuestion(question, wanted, as_typed) for question in questions]
        with torch.inference_mode():
            texts, queries_BD = as_meant(self._corpus, asked, self._query, config)
            each = [wanted] * len(asked)
            found = best(self._corpus, texts, queries_BD, each, config.prior_temperature, config.lexical_weight)
        return [SearchResult(text, *own) for text, own in zip(texts, found, strict=True)]


class SparseRetrieving:
    """BM25, with the same reader the baseline without a trained retriever; corrects no spelling."""

    def __init__(self, retriever: SparseRetriever, snapshot: Snapshot) -> None:
        self._retriever, self._snapshot = retriever, snapshot

    def find(self, questions: Sequence[str], k: int, *, as_typed: bool = True) -> list[SearchResult]:
        found = zip(questions, *self._retriever.search(questions, k), strict=True)
        return [SearchResult(text, list(map(self._snapshot.block, rows)), scores) for text, rows, scores in found]
