"""Search in some collections, with weights; and what collections hold."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from realm_core.index import allowed_rows
from realm_core.index.approximate import ApproximateSearch
from realm_core.index.choice import SearchKind
from realm_core.index.lexical import lexical_scores
from realm_core.index.postings import LexicalPart
from realm_core.living.collections import CollectionFacts
from realm_core.living.documents import Changes, Filter, LivingDocument
from realm_core.living.editing import edit
from realm_core.living.index import LivingIndex
from realm_core.living.scope import Scope, ScopedSearch
from realm_core.living.view import CorpusView
from tests.core.living.building import NAME, CountingEmbedder, base_of, document, queries, store_in, vectors

DAY = datetime.date(2026, 1, 31)
SCOPES = {
    "everything": Scope(Filter()),
    "some collections": Scope(Filter(collections=frozenset({"laws", NAME}))),
    "hidden ones": Scope(Filter(hidden_collections=frozenset({"laws", "no such one"}))),
    "the base hidden": Scope(Filter(hidden_collections=frozenset({NAME}))),
    "weights": Scope(Filter(), frozenset({("laws", 4.0), ("news", 0.25)})),
    "weights of some collections": Scope(Filter(collections=frozenset({"laws", NAME})), frozenset({("laws", 4.0)})),
    "a weight of a hidden one": Scope(
        Filter(hidden_collections=frozenset({"laws"})), frozenset({("laws", 4.0), (NAME, 2.0)})
    ),
    "with a tag": Scope(Filter(tags=frozenset({"tax"})), frozenset({("laws", 0.5)})),
    "nothing": Scope(Filter(collections=frozenset({"laws"}), languages=frozenset({"fi"}))),
}


@pytest.fixture
def index(tmp_path: Path) -> LivingIndex:
    return opened(tmp_path)


def opened(folder: Path, search: SearchKind = "exact") -> LivingIndex:
    store = store_in(folder)
    state = base_of(store, [document(f"b{number}", f"Base {number}", number) for number in range(12)], search=search)
    new = [
        document("law", "Law", 20, 21, collection="laws", tags=("tax",), date=DAY),
        document("act", "Act", 22, collection="laws", language="de"),
        document("news", "News", 23, 24, 25, collection="news", tags=("tax", "sport"), date=DAY.replace(day=1)),
    ]
    state = edit(store, state, Changes(tuple(new), ("b3",)), CountingEmbedder())
    return LivingIndex.open(store, state)


def passes(one: LivingDocument, wanted: Filter) -> bool:
    return (
        (wanted.collections is None or one.collection in wanted.collections)
        and one.collection not in wanted.hidden_collections
        and (wanted.tags is None or bool(wanted.tags & set(one.tags)))
        and (wanted.languages is None or one.language in wanted.languages)
    )


def one_by_one(
    view: CorpusView, scope: Scope, temperature: float, questions: Sequence[str] = ("",) * 4
) -> list[list[tuple[float, int]]]:
    """(score, row) of every row of the scope, best first, for each query. questions: whose lexical score is added."""
    weights, rows = dict(scope.weights), []
    for row in view.live_rows.nonzero()[0].tolist():
        owner = view.document(view.block(row).article_row)
        if passes(owner, scope.wanted):
            rows.append((row, temperature * math.log(weights.get(owner.collection, 1.0))))
    found = []
    for query, question in zip(queries(), questions, strict=True):
        scored = []
        for row, bonus in rows:
            block = view.block(row)
            [b] = lexical_scores(question, [block], 1.0)
            scored.append(((vectors([(block.title, block.text)])[0] @ query).item() + bonus + b, row))
        found.append(sorted(scored, key=lambda pair: (-pair[0], pair[1])))
    return found


@pytest.mark.parametrize("name", SCOPES)
@pytest.mark.parametrize("k", [1, 4, 50])
def test_a_scope_is_searched_as_one_by_one(index: LivingIndex, name: str, k: int) -> None:
    scope, temperature = SCOPES[name], 3.0
    rows_BK, scores_BK = ScopedSearch(index, scope, temperature).search(queries(), k)
    for rows, scores, expected in zip(
        rows_BK.tolist(), scores_BK.tolist(), one_by_one(index.corpus, scope, temperature), strict=True
    ):
        assert rows == [row for _, row in expected[:k]]
        assert scores == pytest.approx([score for score, _ in expected[:k]], abs=1e-5)


@pytest.mark.parametrize("name", SCOPES)
def test_the_lexical_part_is_added_in_every_scope(index: LivingIndex, name: str) -> None:
    scope, temperature = SCOPES[name], 3.0
    questions = ["paragraph 3", "What does w5 say of tax?", "and so on", "Title 8"]
    expected = one_by_one(index.corpus, scope, temperature, questions)
    rows_BK, scores_BK = ScopedSearch(index, scope, temperature).search(queries(), 4, LexicalPart.of(questions, 1.0))
    for rows, scores, own in zip(rows_BK.tolist(), scores_BK.tolist(), expected, strict=True):
        assert rows == [row for _, row in own[:4]]
        assert scores == pytest.approx([score for score, _ in own[:4]], abs=1e-3)


def test_weights_hold_with_approximate_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowed_rows, "_FEW_ROWS", 0)
    exact, approximate = opened(tmp_path / "exact"), opened(tmp_path / "approximate", "ivf")
    assert isinstance(approximate._base[1], ApproximateSearch)  # type: ignore[index]
    scope = SCOPES["weights"]
    for own, other in zip(
        ScopedSearch(approximate, scope, 3.0).search(queries(), 50)[1].tolist(),
        ScopedSearch(exact, scope, 3.0).search(queries(), 50)[1].tolist(),
        strict=True,
    ):
        assert own == pytest.approx(other, abs=1e-5)


def test_what_collections_hold(index: LivingIndex) -> None:
    assert index.corpus.collections == {
        NAME: CollectionFacts(11, frozenset({"en"}), frozenset(), None, None),
        "laws": CollectionFacts(2, frozenset({"en", "de"}), frozenset({"tax"}), DAY, DAY),
        "news": CollectionFacts(
            1, frozenset({"en"}), frozenset({"tax", "sport"}), DAY.replace(day=1), DAY.replace(day=1)
        ),
    }


def test_collections_in_several_layers_are_joined(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    state = base_of(store, [document("b", "Base", 1)])
    one = document("one", "One", 2, collection=NAME, language="fr", date=DAY)
    state = edit(store, state, Changes((one,)), CountingEmbedder())
    other = replace(document("two", "Two", 3, collection=NAME), date=DAY.replace(day=2))
    state = edit(store, state, Changes((other,)), CountingEmbedder())
    facts = CollectionFacts(3, frozenset({"en", "fr"}), frozenset(), DAY.replace(day=2), DAY)
    assert store.view(state).collections == {NAME: facts}


def test_documents_of_a_collection_are_found(index: LivingIndex) -> None:
    view = index.corpus
    laws = view.found(wanted=Filter(collections=frozenset({"laws"})))
    assert [view.document(row).id for row in laws] == ["law", "act"]
    assert {view.collection_of(row) for row in laws} == {"laws"}
    assert view.collection_of(0) == NAME
    others = view.found("a", without=["act"], wanted=Filter(hidden_collections=frozenset({NAME})))
    assert [view.document(row).id for row in others] == ["law"]


def test_accents_may_be_decomposed_and_languages_in_upper_case(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    state = base_of(store, [document("base", "Caf\u00e9", 1), document("other", "Cafe", 2)])
    new = document("new", "Cafe\u0301", 3, tags=("e\u0301te\u0301",), language="FR")
    index = LivingIndex.open(store, edit(store, state, Changes((new,)), CountingEmbedder()))
    assert index.where(Filter(titles=frozenset({"Caf\u00e9"}))).rows == 2
    assert index.where(Filter(tags=frozenset({"\u00e9t\u00e9"}))).rows == 1
    assert index.where(Filter(languages=frozenset({"fr"}))).rows == 1
    assert index.corpus.collections[""].tags == {"\u00e9t\u00e9"}
