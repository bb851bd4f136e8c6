"""Search in a state: masks with exact and approximate search, sharing between states, in place of a snapshot's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from realm_core.errors import RealmError
from realm_core.evaluation.in_corpus import in_corpus
from realm_core.index import allowed_rows
from realm_core.index.approximate import ApproximateSearch
from realm_core.index.choice import search_of
from realm_core.index.embedding import embed
from realm_core.index.generation import Generation
from realm_core.index.manifest import read_manifest, verify
from realm_core.index.retriever import DenseRetriever
from realm_core.index.search import ExactSearch, search_without
from realm_core.living import index as living_index
from realm_core.living.documents import Changes, Filter, LivingDocument
from realm_core.living.editing import edit, embedding_of
from realm_core.living.folding import fold
from realm_core.living.index import LivingIndex, check_fits
from realm_core.living.state import Base, LivingState
from realm_core.living.store import Store
from realm_core.model.checkpoint import load_model
from realm_core.runs.activity import Activity
from realm_core.text.joins import join_query
from realm_core.text.wordpieces import Wordpieces
from tests.core.conftest import Deployment
from tests.core.living.building import CountingEmbedder, answers, base_of, document, first_state, queries, store_in

CPU = torch.device("cpu")


@pytest.mark.parametrize("few_rows", [0, 10_000])
def test_an_approximate_base_answers_as_an_exact_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_rows: int
) -> None:
    """Documents have gone and a filter holds: exactly among few rows, by the mask in the index where they are many."""
    monkeypatch.setattr(allowed_rows, "_FEW_ROWS", few_rows)
    store = store_in(tmp_path)
    first = [document(f"a{n}", f"Title {n}", n) for n in range(30)]
    state = base_of(store, first, search="ivf")
    state = edit(
        store, state, Changes((document("new", "New", 50),), tuple(one.id for one in first[:20])), CountingEmbedder()
    )
    exact, index = LivingIndex.open(store, state, search="exact"), LivingIndex.open(store, state)
    assert isinstance(index._base[1], ApproximateSearch) and isinstance(exact._base[1], ExactSearch)  # type: ignore[index]
    for k in (1, 11, 500):  # of equal scores at the edge either may find any
        assert [scores for _, scores in answers(index, queries(), k)] == [
            scores for _, scores in answers(exact, queries(), k)
        ]
    for titles in ({"Title 25", "Title 3", "New"}, {"New"}, {"Nothing"}):
        only = Filter(titles=frozenset(titles))
        assert answers(index.where(only), queries(), 5) == answers(exact.where(only), queries(), 5)


def test_a_fold_of_an_approximate_base_is_approximate(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    state = base_of(store, [document(f"a{n}", f"Title {n}", n) for n in range(30)], search="ivf")
    state = edit(store, state, Changes((document("new", "New", 50),), ("a3",)), CountingEmbedder())
    folded = fold(store, state, Activity(quiet=True))
    choice = search_of(read_manifest(folded.generation))
    assert choice.kind == "ivf" and choice.wanted == "ivf" and verify(folded.generation)
    after = LivingIndex.open(store, LivingState(state.name, state.block_hash, folded.base))
    exact = LivingIndex.open(store, state, search="exact")
    assert [scores for _, scores in answers(after, queries(), 9)] == [
        scores for _, scores in answers(exact, queries(), 9)
    ]


def test_a_later_state_reuses_the_layers_of_an_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_in(tmp_path)
    state = base_of(store, [document(f"a{n}", f"Title {n}", n) for n in range(10)])
    first = edit(store, state, Changes((document("x", "X", 20),)), CountingEmbedder())
    index = LivingIndex.open(store, first)
    second = edit(store, first, Changes((document("y", "Y", 21),), ("a3",)), CountingEmbedder())
    loaded: list[str] = []
    monkeypatch.setattr(living_index, "open_base", lambda *_: loaded.append("base"))
    later = index.at(second)
    assert loaded == [] and later.corpus.layers[:2] == index.corpus.layers
    assert later.rows == 11 and index.rows == 11, "the earlier one answers as before"
    assert later.where(Filter(documents=frozenset({"y"}))).rows == 1 and loaded == []


@pytest.fixture
def living(deployment: Deployment, tmp_path: Path) -> tuple[Store, LivingState]:
    """The tiny deployment's corpus and index as the base of a living corpus."""
    store = Store(tmp_path / "living", corpora=deployment.corpus.parents[1], indexes=deployment.index.parent)
    return store, first_state(store, "tiny", Base(deployment.corpus.name, deployment.index.name))


def test_it_stands_for_retriever_and_snapshot(deployment: Deployment, living: tuple[Store, LivingState]) -> None:
    store, state = living
    model = load_model(deployment.model)
    questions = ["When was the Suez Canal opened?", "Which moons has Mars?"]
    dense = DenseRetriever(model, Generation.open(deployment.index))
    index = LivingIndex.open(store, state)
    queries_BD = embed(model.query, join_query(Wordpieces.default(), questions, model.config.query_wordpieces))
    rows_BK, scores_BK = index.search(queries_BD, 12)
    rows, scores = dense.search(questions, 12)
    assert rows_BK[:, :5].tolist() == [own[:5] for own in rows]
    assert scores_BK.tolist() == [pytest.approx(own) for own in scores]
    new = LivingDocument("deimos", "Deimos", "Deimos is a moon of Mars. It was found in 1877.", language="en")
    after = edit(store, state, Changes((new,), ("Nile",)), embedding_of(model))
    index = index.at(after)
    rows_BK, _ = index.search(queries_BD, 50)
    titles = [{index.corpus.block(row).title for row in own} for own in rows_BK.tolist()]
    assert all("Deimos" in own and "Nile" not in own and len(own) == 12 for own in titles)
    assert in_corpus(index.corpus, ["1877"]) and not in_corpus(index.corpus, ["Sudan"])  # type: ignore[arg-type]
    [(own, scores)] = search_without(index.search, torch.ones(1, 16), [3], [{0, 1}])
    assert len(own) == len(scores) == 3 and not {0, 1} & set(own)


def test_a_model_of_another_embedder_is_refused(deployment: Deployment, living: tuple[Store, LivingState]) -> None:
    _, state = living
    model = load_model(deployment.model)
    check_fits(model, state)
    with pytest.raises(RealmError, match="another block embedder"):
        check_fits(replace(model, block_hash="another"), state)
