"""The lexical part of the prior: its formula, and that engine and evaluation rank by it alike."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from realm_core.corpus.records import Block
from realm_core.corpus.store import Snapshot
from realm_core.corpus.wordnet import ADDRESS
from realm_core.errors import RealmError
from realm_core.index import lexical
from realm_core.index.generation import Generation
from realm_core.index.lexical import NAME_WEIGHT, RANKED_AGAIN, lexical_scores, ranked_again
from realm_core.index.proximity import Proximity
from realm_core.index.retriever import DenseRetriever
from realm_core.model.checkpoint import load_model, save_model
from realm_core.serving.engine import Engine
from realm_core.tensors import load_tensors
from realm_core.text.wordpieces import Wordpieces
from tests.core.evaluation.material import retrieving
from tests.core.running import activity_of
from tests.tiny import tiny_deployment, tiny_snapshot

QUESTIONS = ["Who was born in Warsaw?", "Which planet has two moons?", "What is the symbol of tungsten?"]


def block(title: str, text: str, row: int = 0) -> Block:
    return Block(row, f"b{row}", title, text, 0, 0, len(text), "", "")


def test_the_score_is_bm25_over_wordpieces() -> None:
    counts = load_tensors(Path(lexical.__file__).with_name("wordpiece_counts.safetensors"))
    blocks, with_V = int(counts["blocks"]), counts["blocks_with"].tolist()
    question, body = "Mars, the moons of Mars?", "Mars has two moons. The moons of Mars are small."
    wordpieces = Wordpieces.default()
    asked, written = wordpieces.ids([question, f"Mars\n{body}"])
    expected = 0.0
    for wordpiece in set(asked):
        n, tf = with_V[wordpiece], written.count(wordpiece)
        idf = math.log(1 + (blocks - n + 0.5) / (n + 0.5))
        expected += idf * tf * 2.5 / (tf + 1.5 * (0.25 + 0.75 * len(written) / 220))
    assert lexical_scores(question, [block("Mars", body)], 1.0) == [pytest.approx(expected, rel=1e-5)]


def test_an_entry_is_compared_with_an_article_by_less() -> None:
    """A reading of a misspelt question is judged by what is near to it, and any word is near to its own entry."""
    article, entry = (
        block("Morocco", "Its capital is Rabat."),
        replace(block("Morrow", "The next day."), url=f"{ADDRESS}Morrow"),
    )
    assert lexical.compared([entry, article], [14.4, 14.3]) == ([article, entry], [14.3, pytest.approx(13.4)])
    assert lexical.compared([entry, article], [15.4, 14.3]) == ([entry, article], [pytest.approx(14.4), 14.3])


def test_rare_words_count_more_and_repeated_ones_less_and_less() -> None:
    texts = ["It is in the north.", "Polonium is a metal.", "Polonium, polonium.", "Polonium, polonium, polonium."]
    scores = lexical_scores("What is polonium?", [block("", text) for text in texts], 1.0)
    assert scores[0] < scores[1] < scores[2] < scores[3]
    assert scores[3] - scores[2] < scores[2] - scores[1]
    assert lexical_scores("What is polonium?", [block("", "Nothing of it here")], 1.0) == [0.0]


@pytest.mark.parametrize(
    ("question", "text", "names"),
    [
        ("Who is Quaffelhuber?", "Zbigniew Quaffelhuber looks after it.", 1),
        ("who is QUAFFELHÜBER", "Zbigniew Quaffelhuber looks after it.", 1),
        ("Who is Zbigniew Quaffelhuber?", "Zbigniew Quaffelhuber looks after it.", 2),
        ("Who is Zbigniew Quaffelhuber?", "Quaffelhuber looks after it.", 1),
        ("Who is Quaffelhuber?", "Nobody looks after it.", 0),
        ("What is XK4200Z?", "The pump XK4200Z is blue.", 1),
        ("How hot may the KX-4021 be?", "The KX-4021 is a pump.", 1),
        ("How hot may the KX-4021 be?", "The KX-4022 is a pump.", 0),
        ("What is version 2.14.3b of Brelm?", "Version 2.14.3b of Brelm is new.", 1),
        ("What happened in 14200?", "In 14200 nothing happened.", 0),
        ("Who was king in the 1620s or on the 30th?", "In the 1620s he was king, on the 30th.", 0),
        ("What is mid-1760s lighthouse-keeping?", "Mid-1760s lighthouse-keeping", 0),
        ("Where is the lighthouse?", "The lighthouse is in the north.", 0),
        ("What is KLM?", "KLM is an airline.", 0),
        ("Quelle est la capitale de la Finlande ?", "La capitale est Helsinki.", 0),
    ],
)
def test_a_block_that_has_a_name_of_the_question_counts_for_more(question: str, text: str, names: int) -> None:
    """Names and codes, which are no English words. λ is so small that nothing else counts."""
    [score] = lexical_scores(question, [block("", text)], 1e-6)
    assert score == pytest.approx(NAME_WEIGHT * names, abs=1e-3)


@given(st.lists(st.floats(-30, 30), max_size=40), st.integers(1, 40), st.sampled_from([0.0, 0.3, 2.0]))
def test_fewer_blocks_are_the_first_of_more(scores: list[float], k: int, weight: float) -> None:
    """Scores fall, only the nearest are ranked again, and none of the others passes them."""
    scores = sorted(scores, reverse=True)
    words = ["moons", "Mars", "two moons of Mars", "nothing"]
    blocks = [block("", words[place % 4], place) for place in range(len(scores))]
    order, sums = ranked_again("How many moons has Mars?", blocks, scores, weight)
    assert sorted(order) == list(range(len(scores))) and sums == sorted(sums, reverse=True)
    assert order[RANKED_AGAIN:] == list(range(RANKED_AGAIN, len(scores)))
    found = max(k, RANKED_AGAIN)
    assert ranked_again("How many moons has Mars?", blocks[:found], scores[:found], weight)[0][:k] == order[:k]
    if weight == 0:
        assert order == list(range(len(scores))) and sums == scores


def weighted_deployment(folder: Path, weight: float) -> tuple[Path, Path, Path]:
    """The tiny deployment with a model that has this lexical weight."""
    start, index, corpus = tiny_deployment(folder)
    model = load_model(start)
    save_model(replace(model, config=replace(model.config, lexical_weight=weight)), folder / "weighted")
    return folder / "weighted", index, corpus


def test_the_engine_ranks_by_the_sum_and_its_prior_is_one_softmax(tmp_path: Path) -> None:
    model, index, corpus = weighted_deployment(tmp_path, 3.0)
    snapshot, loaded = Snapshot.open(corpus), load_model(model)
    plain, summed = DenseRetriever(loaded, Generation.open(index)), retrieving(loaded, index, corpus)
    with closing(Engine.load(model, index, corpus)) as engine:
        for question in QUESTIONS:
            ((rows,), (scores,)) = plain.search([question], len(snapshot))
            own = lexical_scores(question, [snapshot.block(row) for row in rows], 3.0)
            proximity = Proximity.of(question)
            sums = {
                row: f + b + proximity.score(snapshot.block(row)) for row, f, b in zip(rows, scores, own, strict=True)
            }
            best = sorted(sums, key=lambda row: -sums[row])[:4]
            assert best != rows[:4]  # otherwise this test would show nothing
            [found] = summed.find([question], 4)
            assert [block.row for block in found.blocks] == best
            assert found.scores == pytest.approx([sums[row] for row in best], abs=1e-3)
            retrieved = engine.retrieve(question, k=4).blocks
            assert {one.block_id for one in retrieved} == {snapshot.block(row).block_id for row in best}
            prior = torch.softmax(torch.tensor([sums[row] for row in best]), dim=0).tolist()
            assert [one.prior for one in retrieved] == pytest.approx(prior, abs=0.05)  # half the precision
            assert [one.score for one in retrieved] == pytest.approx([sums[row] for row in best], abs=0.2)
            read = engine.ask(question, k=4).evidence
            assert sum(one.retriever_prior for one in read) == pytest.approx(1)
            assert {one.block_id: one.retriever_score for one in read} == pytest.approx(
                {one.block_id: one.score for one in retrieved}, abs=1e-4
            )


def test_another_weight_can_be_measured(tmp_path: Path) -> None:
    model, index, corpus = weighted_deployment(tmp_path, 0.0)
    asked = tmp_path / "asked.jsonl"
    asked.write_text('{"question": "Who was born in Warsaw?", "answers": ["Marie Curie"]}\n')
    where = ["--model", model, "--index", index, "--corpus", corpus, "--questions", asked, "--device", "cpu"]
    path = ["--predictions", tmp_path / "p.jsonl"]
    activity_of("evaluate", [*where, *path, "--lexical-weight", 3])
    with pytest.raises(RealmError, match="it differs in lexical_weight"):
        activity_of("evaluate", [*where, *path])
    with pytest.raises(RealmError, match=r"--lexical-weight must be .* not -1"):
        activity_of("evaluate", [*where, "--lexical-weight", -1])


def test_wordpieces_are_counted_by_block(tmp_path: Path) -> None:
    corpus = tiny_snapshot(
        tmp_path, {"Mars": "Mars, Mars and Mars.", "Venus": "Venus is not Mars.", "Nile": "A river."}
    )
    made = tmp_path / "counts.safetensors"
    activity_of("count-wordpieces", ["--corpus", corpus, "--output", made])
    counts = load_tensors(made)
    [[mars], [river]] = Wordpieces.default().ids(["Mars", "river"])
    assert int(counts["blocks"]) == 3
    assert (int(counts["blocks_with"][mars]), int(counts["blocks_with"][river])) == (2, 1)
    with pytest.raises(RealmError, match="exists already"):
        activity_of("count-wordpieces", ["--corpus", corpus, "--output", made])


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf, "1"])
def test_a_model_with_a_weight_that_is_none_is_refused(weight: object) -> None:
    from realm_core.model.config import ModelConfig

    with pytest.raises(RealmError, match="lexical_weight must be a number from 0 up"):
        ModelConfig(lexical_weight=weight)  # type: ignore[arg-type]
