"""Sparse retrieval: BM25 over a snapshot's blocks (the bm25s library), the classic baseline."""

from __future__ import annotations

from collections.abc import Sequence

from realm_core.corpus.store import Snapshot

_READ_AT_ONCE = 10_000


class BM25Search:
    """BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over title and text, English stemming and stop words."""

    def __init__(self, snapshot: Snapshot) -> None:
        import bm25s
        import Stemmer

        self._stemmer = Stemmer.Stemmer("english")
        self._tokenize = bm25s.tokenize
        texts: list[str] = []
        for start in range(0, len(snapshot), _READ_AT_ONCE):
            titles, bodies = snapshot.titles_texts(start, min(start + _READ_AT_ONCE, len(snapshot)))
            texts.extend(f"{title}\n{body}" for title, body in zip(titles, bodies, strict=True))
        self._index = bm25s.BM25()
        self._index.index(self._tokens(texts), show_progress=False)
        self._rows = len(texts)

    def _tokens(self, texts: Sequence[str]):  # type: ignore[no-untyped-def]  # bm25s's own Tokenized, untyped
        return self._tokenize(list(texts), stopwords="en", stemmer=self._stemmer, show_progress=False)

    def search(self, questions: Sequence[str], k: int) -> tuple[list[list[int]], list[list[float]]]:
        """Rows and scores of the k best blocks of each question, highest first."""
        rows_BK, scores_BK = self._index.retrieve(
            self._tokens(questions), k=min(k, self._rows), show_progress=False, n_threads=1
        )
        return rows_BK.tolist(), scores_BK.tolist()
