"""From a question to its answer on a tiny deployment: the numbers add up for any question."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm_core.errors import RealmError
from realm_core.index.build import build
from realm_core.model.checkpoint import load_model, save_model
from realm_core.model.config import Calibration, Normalisation
from realm_core.questions.answers import holds_answer
from realm_core.runs.activity import Activity
from realm_core.serving.engine import Engine
from realm_core.serving.provenance import Answer
from realm_core.settings import MAX_K
from tests.core.conftest import Deployment
from tests.core.engines import NORMALISATIONS, QUESTIONS, assert_alike, check_sums, engine_of
from tests.core.running import activity_of
from tests.tiny import ARTICLES, tiny_snapshot

ODD_QUESTIONS = {
    "non-Latin": "Кто написал «Войну и мир»?",
    "Chinese": "蘇伊士運河是什麼時候開通的？",
    "Arabic": "متى افتتحت قناة السويس؟",
    "emoji": "🌍🚀🪐",
    "long": "why " * 5000,
    "one long word": "x" * 20_000,
    "null bytes": "Who\x00 was\x00?",
    "only a null byte": "\x00",
    "markup": "<script>alert(1)</script> [SEP] [MASK] {{x}}",
    "marks": "a" + "\u0301" * 300,
    "right to left": "\u202ewho\u202c was",
}


# ── The numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_numbers_add_up(engine: Engine, question: str, normalisation: Normalisation) -> None:
    answer = engine.ask(question, k=5, normalisation=normalisation)
    assert (answer.question, answer.normalisation, len(answer.evidence)) == (question, normalisation, 5)
    check_sums(answer)


MISSPELT = ["who wrote war and peice", "where is the Suez canel", "wich river runs thruogh egpyt"]


def test_a_misspelt_question_is_answered_as_what_it_is_read_as(engine: Engine) -> None:
    readings = []
    for question in MISSPELT:
        answer, found = engine.ask(question, k=3), engine.retrieve(question, k=3)
        assert answer.question == question and found.read_as == answer.read_as != question
        reading = answer.read_as or question
        corrected = engine.ask(reading, k=3, as_typed=True)
        assert_alike(answer, replace(corrected, question=question, read_as=answer.read_as))
        blocks = engine.retrieve(reading, k=3, as_typed=True).blocks
        assert [block.block_id for block in found.blocks] == [block.block_id for block in blocks]
        readings.append(reading)
    assert readings != MISSPELT


def test_a_topic_is_searched_for_as_typed_and_read_as_a_question(engine: Engine) -> None:
    answer = engine.ask("amazon river", k=3)
    assert (answer.question, answer.read_as) == ("amazon river", "What is amazon river?")
    typed = engine.ask("amazon river", k=3, as_typed=True)
    assert typed.read_as == "" and [one.prior for one in typed.evidence] == [one.prior for one in answer.evidence]
    assert [one.likelihood for one in typed.evidence] != [one.likelihood for one in answer.evidence]
    check_sums(answer)


@pytest.mark.parametrize("question", MISSPELT)
def test_a_question_may_be_taken_as_it_was_typed(engine: Engine, question: str) -> None:
    answer, found = engine.ask(question, as_typed=True), engine.retrieve(question, as_typed=True)
    assert answer.read_as == found.read_as == ""
    assert engine.rank_holding(question, [found.blocks[0].text], among=5, as_typed=True) == 1


@settings(max_examples=25)
@given(question=st.text(min_size=1, max_size=80), k=st.integers(1, 20), normalisation=st.sampled_from(NORMALISATIONS))
def test_the_numbers_add_up_for_any_question(
    engine: Engine, question: str, k: int, normalisation: Normalisation
) -> None:
    try:
        question.encode()
    except UnicodeEncodeError:
        with pytest.raises(RealmError, match="not valid text"):
            engine.ask(question)
        return
    if not question.strip():
        with pytest.raises(RealmError, match="question is empty"):
            engine.ask(question)
        return
    answer = engine.ask(question, k=k, normalisation=normalisation)
    assert len(answer.evidence) == min(k, len(ARTICLES))
    check_sums(answer)
    check_sums(answer.without({answer.evidence[-1].block_id}) if k > 1 else answer)


@pytest.mark.parametrize("kind", ODD_QUESTIONS)
def test_unusual_questions_are_answered(engine: Engine, kind: str) -> None:
    answer = engine.ask(ODD_QUESTIONS[kind])
    assert answer.question == ODD_QUESTIONS[kind].strip()
    check_sums(answer)


def test_weights_are_the_retrievers_except_under_joint(precise: Engine) -> None:
    for normalisation in NORMALISATIONS:
        evidence = precise.ask(QUESTIONS[0], normalisation=normalisation).evidence
        same = [e.prior == pytest.approx(e.retriever_prior, abs=1e-9) for e in evidence]
        assert all(same) == (normalisation != "joint")


def test_the_rank_of_the_first_block_with_an_answer(precise: Engine) -> None:
    found = precise.retrieve(QUESTIONS[0], k=12).blocks
    for one in found:
        title = [block.rank for block in found if holds_answer(block.text, [one.title])]
        assert precise.rank_holding(QUESTIONS[0], [one.title], among=1000) == (title[0] if title else None)
    first, last = found[0], found[-1]
    behind = precise.rank_holding(QUESTIONS[0], [last.text], among=1000)
    assert behind == 12 and precise.rank_holding(QUESTIONS[0], [last.text], among=11) is None
    assert precise.rank_holding(QUESTIONS[0], [last.text], among=11, exclude=[first.block_id]) == 11


def test_the_default_normalisation_is_the_models(precise: Engine) -> None:
    assert precise.ask("x").normalisation == precise.config.normalisation == "block+null"
    with pytest.raises(RealmError, match=r"normalisation must be one of block, joint, block\+null"):
        precise.ask("x", normalisation="softmax")  # type: ignore[arg-type]


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_without_a_block_is_as_if_it_had_been_excluded(precise: Engine, normalisation: Normalisation) -> None:
    answer = precise.ask(QUESTIONS[0], k=5, normalisation=normalisation)
    for removed in ([answer.evidence[0].block_id], [e.block_id for e in answer.evidence[1:3]]):
        left = 5 - len(removed)
        asked_again = precise.ask(QUESTIONS[0], k=left, exclude=removed, normalisation=normalisation)
        closed_form = answer.without(removed)
        assert {e.block_id for e in closed_form.evidence} == {e.block_id for e in asked_again.evidence}
        assert_alike(asked_again, closed_form)


def test_an_answer_names_model_index_and_corpus(precise: Engine, deployment: Deployment) -> None:
    answer = precise.ask(QUESTIONS[0])
    assert (answer.model, answer.index, answer.corpus) == (precise.model_id, precise.index_id, precise.corpus_id)
    assert precise.index_id == deployment.index.name
    assert precise.corpus_id == f"tiny@{deployment.corpus.name}"
    assert precise.model_id.startswith("model-0@")
    assert answer.timings_ms.keys() == {"wait", "embed", "search", "read", "marginalise"}
    assert 0 < sum(answer.timings_ms.values()) <= answer.latency_ms * 1.01
    assert Answer.from_dict(answer.as_dict()) == answer


@pytest.mark.parametrize("origin", ["tiny tiny", "default en"])
def test_the_calibration_is_that_of_the_corpus(
    deployment: Deployment, precise: Engine, tmp_path: Path, origin: str
) -> None:
    """A model that was calibrated on the corpus that is asked, and one that was calibrated on another."""
    model = load_model(deployment.model)
    own = Calibration(0.3, 0.01, 2.0, 1.4, -1.0, 0.5, -1.0, 0.25, 0.1)
    elsewhere = Calibration(0.4, 0.02, 0.5, 0.7, 1.0, 0.75, -2.0, 0.5, 0.2)
    config = model.config.calibrated(own, origin, elsewhere)
    save_model(replace(model, config=config), tmp_path / "made")
    with closing(Engine.load(tmp_path / "made", deployment.index, deployment.corpus, device="cpu")) as engine:
        answer = engine.ask(QUESTIONS[0])
    expected = own if origin == "tiny tiny" else elsewhere
    told = {name: value for name, value in asdict(expected).items() if hasattr(answer, name)}
    assert told == {name: getattr(answer, name) for name in told} and answer.is_calibrated
    assert told.keys() >= {"min_probability", "confidence_slope", "confidence_offset"}
    plain = sorted(block.retriever_score / expected.prior_temperature for block in precise.ask(QUESTIONS[0]).evidence)
    assert sorted(block.retriever_score for block in answer.evidence) == pytest.approx(plain, rel=0.02)
    questions = tmp_path / "asked.jsonl"
    questions.write_text(json.dumps({"question": QUESTIONS[0], "answers": ["17 November 1869"]}) + "\n")
    where = ["--index", deployment.index, "--corpus", deployment.corpus, "--device", "cpu", "--questions", questions]
    predictions = ["--predictions", tmp_path / "predictions.jsonl"]
    activity_of("evaluate", ["--model", tmp_path / "made", *where, *predictions])
    _, predicted = map(json.loads, (tmp_path / "predictions.jsonl").read_text().splitlines())
    assert predicted["confidence"] == pytest.approx(answer.confidence, abs=0.02)


def test_answers_keep_their_casing_and_spacing(precise: Engine) -> None:
    texts = {e.title: e.text for e in precise.ask("anything", k=12).evidence}
    assert texts == ARTICLES
    said = [a.text for a in precise.ask("anything", k=12).answers]
    assert any(text != text.lower() for text in said)
    assert all(any(text in body for body in ARTICLES.values()) for text in said)


# ── What is asked for ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("k", [0, -1, MAX_K + 1])
def test_a_number_of_blocks_out_of_range_is_refused(precise: Engine, k: int) -> None:
    with pytest.raises(RealmError, match=f"k must be from 1 to {MAX_K}, not {k}"):
        precise.ask("x", k=k)
    with pytest.raises(RealmError, match="k must be"):
        precise.retrieve("x", k=k)


@pytest.mark.parametrize("question", ["", " ", "\n\t "])
def test_an_empty_question_is_refused(precise: Engine, question: str) -> None:
    with pytest.raises(RealmError, match="question is empty"):
        precise.ask(question)


def test_excluded_blocks_are_not_read_and_unknown_ids_are_ignored(precise: Engine) -> None:
    first = precise.ask("x", k=3).evidence
    excluded = [first[0].block_id, "0" * 32, "nonsense"]
    again = precise.ask("x", k=3, exclude=excluded).evidence
    assert len(again) == 3 and first[0].block_id not in {e.block_id for e in again}


def test_with_everything_excluded_there_is_no_answer(precise: Engine) -> None:
    everything = [e.block_id for e in precise.ask("x", k=12).evidence]
    answer = precise.ask("x", exclude=everything)
    assert (answer.answer, answer.evidence, answer.explains) == (None, (), "no_answer")
    assert precise.retrieve("x", exclude=everything).blocks == []


def test_retrieving_finds_the_blocks_that_asking_reads(precise: Engine) -> None:
    found = precise.retrieve(QUESTIONS[1], k=4).blocks
    read = {e.block_id: e for e in precise.ask(QUESTIONS[1], k=4).evidence}
    assert [b.rank for b in found] == [1, 2, 3, 4]
    assert [b.score for b in found] == sorted((b.score for b in found), reverse=True)
    assert sum(b.prior for b in found) == pytest.approx(1.0)
    for b in found:
        own = read[b.block_id]
        assert (b.title, b.text, b.url, b.section) == (own.title, own.text, own.url, own.section)
        assert (b.score, b.prior) == pytest.approx((own.retriever_score, own.retriever_prior), abs=1e-5)


def test_approximate_search(deployment: Deployment, precise: Engine) -> None:
    """By the index's own choice and by order; and exactly all the same where that is said."""
    folder, quiet = deployment.root / "approximate", Activity(quiet=True)
    index = build(deployment.model, deployment.corpus, folder, quiet, device="cpu", search="ivf")
    for search in ("auto", "ivf", "exact"):
        engine = engine_of(replace(deployment, index=index), search=search)
        for question in QUESTIONS[:2]:
            assert_alike(engine.ask(question), precise.ask(question))
            check_sums(engine.ask(question, exclude=[precise.ask(question).evidence[0].block_id]))
        engine.close()
    with pytest.raises(RealmError, match="has no approximate search"):
        engine_of(deployment, search="ivf")


def test_blocks_without_words_are_read(deployment: Deployment) -> None:
    corpus = tiny_snapshot(deployment.root / "blank", {"Blank": "\u2060\u2060.", "Dots": ". . ."})
    index = build(deployment.model, corpus, deployment.root / "blank-indexes", Activity(quiet=True), device="cpu")
    engine = Engine.load(deployment.model, index, corpus, device="cpu")
    for normalisation in NORMALISATIONS:
        check_sums(engine.ask("x", normalisation=normalisation))
    engine.close()
