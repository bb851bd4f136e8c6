"""Sparse retrieval: BM25 over a snapshot's blocks (the bm25s library), the classic baseline.

An index may be cached in a folder per snapshot, of numpy arrays and JSON:

    bm25-SNAPSHOT/manifest.json   versions, snapshot id and the checksums of the other files
    bm25-SNAPSHOT/…               files of bm25s

Legend: B questions, N blocks, K results.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from realm_core.corpus.store import Snapshot
from realm_core.index.search import stable_top
from realm_core.runs.derived import derive_folder

_FORMAT = 1  # raise it when tokenisation or weights change
_READ_AT_ONCE = 10_000


class SparseRetriever:
    """BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over title and text, English stemming and stop words.

    cache: folder in which the index of this snapshot is kept.
    """

    def __init__(self, snapshot: Snapshot, cache: Path | None = None) -> None:
        import Stemmer

        self._stemmer = Stemmer.Stemmer("english")
        index = self._index_of(snapshot) if cache is None else self._cached(snapshot, cache)
        self._words: dict[str, int] = index.vocab_dict
        # Posting lists in compressed sparse columns: word i has the entries bounds[i] to bounds[i + 1].
        self._weights = torch.from_numpy(index.scores["data"])
        self._blocks = torch.from_numpy(index.scores["indices"])
        self._bounds: list[int] = index.scores["indptr"].tolist()
        self._rows = len(snapshot)

    def search(self, questions: Sequence[str], k: int) -> tuple[list[list[int]], list[list[float]]]:
        """Rows and scores of the min(k, N) best blocks of each question, highest first; ties by ascending row."""
        with ThreadPoolExecutor(max(1, torch.get_num_threads())) as threads:
            found = list(threads.map(lambda words: self._best(words, k), self._tokenise(questions)))
        return [rows for rows, _ in found], [scores for _, scores in found]

    def rows(self, questions: Sequence[str], k: int) -> list[list[int]]:
        return self.search(questions, k)[0]

    def _best(self, words: Sequence[str], k: int) -> tuple[list[int], list[float]]:
        scores_N = torch.zeros(self._rows)
        for word in words:
            number = self._words.get(word, len(self._bounds))
            if number + 1 < len(self._bounds):  # the empty word is in bm25s's vocabulary but has no postings
                own = slice(self._bounds[number], self._bounds[number + 1])
                scores_N.index_add_(0, self._blocks[own], self._weights[own])
        scores_1K, rows_1K = stable_top(scores_N.unsqueeze(0), k)
        return rows_1K[0].tolist(), scores_1K[0].tolist()

    def _tokenise(self, texts: Sequence[str], *, return_ids: bool = False) -> Any:
        """The stems of each text; `return_ids`: as bm25s's object of ids and vocabulary."""
        import bm25s

        return bm25s.tokenize(
            list(texts), stopwords="en", stemmer=self._stemmer, return_ids=return_ids, show_progress=False
        )

    def _index_of(self, snapshot: Snapshot) -> Any:
        import bm25s

        texts: list[str] = []
        for start in range(0, len(snapshot), _READ_AT_ONCE):
            titles, bodies = snapshot.titles_texts(start, min(start + _READ_AT_ONCE, len(snapshot)))
            texts.extend(f"{title}\n{body}" for title, body in zip(titles, bodies, strict=True))
        index = bm25s.BM25()
        index.index(self._tokenise(texts, return_ids=True), show_progress=False)
        return index

    def _cached(self, snapshot: Snapshot, cache: Path) -> Any:
        import bm25s

        folder = cache / f"bm25-{snapshot.snapshot_id}"
        identity = {"format": _FORMAT, "bm25s": bm25s.__version__, "snapshot_id": snapshot.snapshot_id}

        def make(temporary: Path) -> None:
            self._index_of(snapshot).save(temporary, allow_pickle=False, show_progress=False)

        derive_folder(folder, identity, make)
        return bm25s.BM25.load(folder, allow_pickle=False)
