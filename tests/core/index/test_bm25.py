"""BM25 against its formula, and the cached index."""

from __future__ import annotations

import json
import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import Stemmer
from bm25s.stopwords import STOPWORDS_EN

from realm_core.corpus.store import Snapshot
from realm_core.index.bm25 import SparseRetriever
from tests.core.conftest import Deployment
from tests.tiny import tiny_snapshot

QUERIES = ["Which river crosses Brazil?", "river river Egypt", "a metal", "the of", "zyzzyva", "", "Nile 1869 capital"]


@pytest.fixture(scope="module")
def snapshot(deployment: Deployment) -> Snapshot:
    return Snapshot.open(deployment.corpus)


def words(text: str) -> list[str]:
    """Stems of the words of two letters or more that are not stop words."""
    cut = "".join(character if character.isalnum() or character == "_" else " " for character in text.lower()).split()
    stem = Stemmer.Stemmer("english").stemWord
    return [stem(word) for word in cut if len(word) > 1 and word not in STOPWORDS_EN]


def by_formula(snapshot: Snapshot, query: str) -> list[float]:
    """Σ_word log(1 + (N − n + ½) / (n + ½)) · tf / (tf + k1 · (1 − b + b · length / mean length))."""
    blocks = [snapshot.block(row) for row in range(len(snapshot))]
    texts = [words(f"{block.title}\n{block.text}") for block in blocks]
    mean = sum(map(len, texts)) / len(texts)
    scores = []
    for text in texts:
        score, counts = 0.0, Counter(text)
        for word in words(query):
            n = sum(word in other for other in texts)
            idf = math.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
            score += idf * counts[word] / (counts[word] + 1.5 * (1 - 0.75 + 0.75 * len(text) / mean))
        scores.append(score)
    return scores


def test_scores_are_those_of_the_formula(snapshot: Snapshot) -> None:
    rows, scores = SparseRetriever(snapshot).search(QUERIES, 100)
    for query, own_rows, own_scores in zip(QUERIES, rows, scores, strict=True):
        wanted = by_formula(snapshot, query)
        assert sorted(own_rows) == list(range(len(snapshot)))
        assert own_scores == pytest.approx([wanted[row] for row in own_rows], abs=1e-5)
        ranked = sorted(range(len(snapshot)), key=lambda row: (-round(wanted[row], 5), row))
        assert own_rows == ranked  # of equal scores the lower row comes first


def test_a_smaller_k_returns_a_prefix(snapshot: Snapshot) -> None:
    search = SparseRetriever(snapshot)
    all_rows, _ = search.search(QUERIES, 12)
    for k in (1, 3, 7):
        assert search.search(QUERIES, k)[0] == [rows[:k] for rows in all_rows]


def test_the_index_is_cached_without_pickle(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = SparseRetriever(snapshot, tmp_path / "cache").search(QUERIES, 5)
    folder = tmp_path / "cache" / f"bm25-{snapshot.snapshot_id}"
    kinds = {path.suffix for path in folder.iterdir()}
    assert kinds == {".npy", ".json"}
    for array in folder.glob("*.npy"):
        assert b"'|O'" not in array.read_bytes()[:128]  # an array of objects would be pickled
    monkeypatch.setattr(SparseRetriever, "_index_of", lambda *_: pytest.fail("it was made again"))
    assert SparseRetriever(snapshot, tmp_path / "cache").search(QUERIES, 5) == first


def test_concurrent_users_build_the_index_once(snapshot: Snapshot, tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: SparseRetriever(snapshot, tmp_path).search(QUERIES, 5), range(3)))
    assert found[0] == found[1] == found[2]
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [f"bm25-{snapshot.snapshot_id}"]


def test_a_damaged_index_or_one_of_another_version_is_made_again(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = SparseRetriever(snapshot, tmp_path).search(QUERIES, 5)
    folder = tmp_path / f"bm25-{snapshot.snapshot_id}"
    weights = folder / "data.csc.index.npy"
    content = weights.read_bytes()
    for damage in (content[:-1], None):
        weights.unlink()
        if damage is not None:
            weights.write_bytes(damage)
        assert SparseRetriever(snapshot, tmp_path).search(QUERIES, 5) == found and weights.read_bytes() == content
        assert "data.csc.index.npy is missing or damaged. It is made again." in caplog.text
        caplog.clear()
    monkeypatch.setattr("bm25s.__version__", "99")
    SparseRetriever(snapshot, tmp_path)
    assert "by another version. It is made again." in caplog.text
    assert json.loads((folder / "manifest.json").read_text())["bm25s"] == "99"


def test_each_corpus_has_its_own_index(snapshot: Snapshot, tmp_path: Path) -> None:
    other = Snapshot.open(tiny_snapshot(tmp_path, {"Venus": "Venus is a planet.", "Seine": "A river in France."}))
    cache = tmp_path / "cache"
    assert SparseRetriever(snapshot, cache).search(["river in France"], 1) != SparseRetriever(other, cache).search(
        ["river in France"], 1
    )
    assert SparseRetriever(other, cache).search(["river in France"], 5)[0] == [[1, 0]]
