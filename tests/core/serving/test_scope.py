"""Questions in a scope, from end to end: filters hold, weights multiply the prior, and the numbers add up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from realm_core.corpus.ingest import ingest
from realm_core.corpus.records import RawArticle, Stated
from realm_core.errors import RealmError
from realm_core.index.build import build
from realm_core.living.documents import Changes, Filter, LivingDocument
from realm_core.living.editing import edit, embedding_of
from realm_core.living.index import LivingIndex
from realm_core.living.scope import Scope, ScopedSearch
from realm_core.living.state import Base
from realm_core.living.store import Store
from realm_core.model.checkpoint import load_model
from realm_core.runs.activity import Activity
from realm_core.serving import corpus
from realm_core.serving.corpus import LivingCorpus, Wanted
from realm_core.serving.engine import Engine
from realm_core.serving.waiting import QueuedRequest
from tests.core.conftest import Deployment
from tests.core.engines import check_sums, engine_of
from tests.core.living.building import first_state
from tests.in_memory_source import InMemorySource
from tests.tiny import tiny_model

QUESTION = "Which moons has Mars?"
OWN = Scope(Filter(collections=frozenset({"own"})))
OTHERS = Scope(Filter(hidden_collections=frozenset({"own"})))


@pytest.fixture(scope="module")
def living(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The tiny deployment with two documents of a collection `own`."""
    folder: Path = tmp_path_factory.mktemp("living")
    store = Store(folder, corpora=deployment.corpus.parents[1], indexes=deployment.index.parent)
    state = first_state(store, "tiny", Base(deployment.corpus.name, deployment.index.name))
    new = (
        LivingDocument("deimos", "Deimos", "Deimos is a moon of Mars. It was found in 1877.", collection="own"),
        LivingDocument("phobos", "Phobos", "Phobos is the larger moon of Mars.", collection="own", tags=("large",)),
    )
    state = edit(store, state, Changes(new), embedding_of(load_model(deployment.model)))
    engine = engine_of(deployment, living=LivingCorpus(store, state))
    yield engine
    engine.close()


def test_only_what_is_in_the_scope_is_read(living: Engine) -> None:
    own = living.ask(QUESTION, k=5, scope=OWN)
    assert {block.title for block in own.evidence} == {"Deimos", "Phobos"}
    assert {block.collection for block in own.evidence} == {"own"}
    check_sums(own)
    others = living.ask(QUESTION, k=20, scope=OTHERS)
    assert "own" not in {block.collection for block in others.evidence} and others.evidence
    [large] = living.retrieve(QUESTION, k=5, scope=Scope(Filter(tags=frozenset({"large"})))).blocks
    assert (large.title, large.collection, large.prior) == ("Phobos", "own", 1.0)
    everything = living.ask(QUESTION, k=20)
    assert {"own"} < {block.collection for block in everything.evidence}
    assert living.rank_holding(QUESTION, ["1877"], among=20, scope=OWN) in (1, 2)
    assert living.rank_holding(QUESTION, ["1877"], among=20, scope=OTHERS) is None


@pytest.mark.parametrize("lexical_weight", [0.0, 3.0])
def test_questions_of_one_batch_keep_to_their_scopes_and_words(
    living: Engine, monkeypatch: pytest.MonkeyPatch, lexical_weight: float
) -> None:
    monkeypatch.setattr(living, "config", replace(living.config, lexical_weight=lexical_weight))
    asked = [(QUESTION, OWN), ("Who opened the Suez Canal?", None), ("What is tungsten?", OTHERS), ("1877?", OWN)]
    requests = [
        QueuedRequest(living._ask_request(question, Wanted(3, (), scope), None, read=True))  # type: ignore[var-annotated]
        for question, scope in asked
    ]
    living._serve_batch(requests)
    for (question, scope), request in zip(asked, requests, strict=True):
        answer, alone = request.future.result(), living.ask(question, k=3, scope=scope)
        assert [block.block_id for block in answer.evidence] == [block.block_id for block in alone.evidence]
        for together, by_itself in zip(answer.evidence, alone.evidence, strict=True):
            assert together.retriever_score == pytest.approx(by_itself.retriever_score, abs=0.05)


def test_a_weight_multiplies_the_prior(living: Engine) -> None:
    before = {block.block_id: block for block in living.ask(QUESTION, k=50).evidence}
    weighted = living.ask(QUESTION, k=50, scope=Scope(Filter(), frozenset({("own", 3.0)})))
    check_sums(weighted)
    assert {block.block_id for block in weighted.evidence} == before.keys(), "k takes in everything"
    for block in weighted.evidence:
        more = math.log(3.0) if block.collection == "own" else 0.0
        assert block.retriever_score - before[block.block_id].retriever_score == pytest.approx(more, abs=1e-5)
    unscaled = {
        block_id: block.retriever_prior * (3.0 if block.collection == "own" else 1.0)
        for block_id, block in before.items()
    }
    total = sum(unscaled.values())
    for block in weighted.evidence:
        assert block.retriever_prior == pytest.approx(unscaled[block.block_id] / total, abs=1e-6)


def test_weights_choose_the_blocks(living: Engine) -> None:
    most = Scope(Filter(), frozenset({("own", 1e9)}))
    assert {block.collection for block in living.retrieve(QUESTION, k=2, scope=most).blocks} == {"own"}
    least = Scope(Filter(), frozenset({("own", 1e-9)}))
    assert "own" not in {block.collection for block in living.retrieve(QUESTION, k=2, scope=least).blocks}


def test_where_no_block_passes_there_is_no_answer(living: Engine) -> None:
    nothing = Scope(Filter(languages=frozenset({"xx"})))
    answer = living.ask(QUESTION, scope=nothing)
    assert (answer.answer, answer.evidence, answer.confidence) == (None, (), None)
    assert living.retrieve(QUESTION, scope=nothing).blocks == []


def test_the_mask_of_a_scope_is_made_once(living: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Scope] = []

    class Counted(ScopedSearch):
        def __init__(self, index: LivingIndex, scope: Scope, temperature: float) -> None:
            made.append(scope)
            super().__init__(index, scope, temperature)

    monkeypatch.setattr(corpus, "ScopedSearch", Counted)
    for _ in range(3):
        living.ask(QUESTION, scope=Scope(Filter(titles=frozenset({"Deimos"}))))
        living.ask(QUESTION)
    assert len(made) == 1


def test_what_is_searched(living: Engine) -> None:
    assert living.collections["own"].documents == 2
    assert living.collections["own"].tags == {"large"}


def test_a_corpus_that_is_not_living_has_scopes_and_stays_as_it_is(living: Engine, engine: Engine) -> None:
    (name,) = engine.collections
    scope = Scope(Filter(collections=frozenset({name})))
    assert {block.collection for block in engine.ask(QUESTION, scope=scope).evidence} == {name}
    with pytest.raises(RealmError, match="without a living corpus"):
        engine.take_up(living._corpus.index.corpus.state)


def test_a_corpus_as_it_was_ingested_has_the_collections_that_its_source_states(tmp_path: Path) -> None:
    source = InMemorySource(
        [RawArticle(id="Mars", title="Mars", url="", text="Mars has two moons.", stated=Stated(collection="planets"))],
        name="tiny",
    )
    corpus = ingest(source, name="tiny", output=tmp_path, activity=Activity(quiet=True), processes=1)
    model = tiny_model(tmp_path)
    index = build(model, corpus, tmp_path / "indexes", Activity(quiet=True), device="cpu")
    with closing(Engine.load(model, index, corpus, device="cpu")) as engine:
        assert {block.collection for block in engine.ask(QUESTION).evidence} == {"planets"}
