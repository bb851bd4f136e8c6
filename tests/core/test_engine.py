"""From a question to its answer, on a tiny deployment: the numbers add up, whoever asks whatever, at whatever time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realm_core.activity import Activity
from realm_core.engine import MAX_BLOCKS, Engine
from realm_core.errors import EngineUnavailable, RealmError
from realm_core.evaluation.answers import normalise_answer
from realm_core.index.build import build
from realm_core.model.marginal import Normalisation
from realm_core.provenance import Answer
from tests.core.conftest import Deployment
from tests.tiny import ARTICLES, tiny_snapshot

NORMALISATIONS: list[Normalisation] = ["block", "joint", "block+null"]
QUESTIONS = [
    "When was the Suez Canal opened?",
    "Which metal melts at 3,422 °C?",
    "Who directed 2001: A Space Odyssey?",
    "capital of Bhutan",
    "x",
]
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


def engine_of(deployment: Deployment, **options: Any) -> Engine:
    """An engine in single precision: with whom a question is read then changes next to nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("realm_core.model.encoding.fast_dtype", lambda device: torch.float32)
        return Engine.load(deployment.model, deployment.index, deployment.corpus, device="cpu", **options)


@pytest.fixture(scope="module")
def precise(deployment: Deployment) -> Iterator[Engine]:
    engine = engine_of(deployment)
    yield engine
    engine.close()


def figures(answer: Answer) -> dict[str, Any]:
    """The numbers of an answer by what they are of, whatever the order."""
    return {
        "answers": {normalise_answer(a.text): a.probability for a in answer.answers},
        "prior": {e.block_id: e.prior for e in answer.evidence},
        "null": {e.block_id: e.no_answer_likelihood or 0.0 for e in answer.evidence},
        "score": {e.block_id: e.retriever_score for e in answer.evidence},
    }


def assert_alike(one: Answer, other: Answer) -> None:
    assert one.question == other.question
    for (name, left), right in zip(figures(one).items(), figures(other).values(), strict=True):
        common = left.keys() & right.keys() if name == "answers" else left.keys() | right.keys()
        assert len(common) >= 0.9 * len(left)  # of nearly equal spans, others may be among the best
        assert {k: left[k] for k in common} == pytest.approx({k: right[k] for k in common}, abs=1e-4)


def check_sums(answer: Answer) -> None:
    evidence = answer.evidence
    assert sum(e.prior for e in evidence) == pytest.approx(1.0, abs=1e-9)
    assert sum(e.retriever_prior for e in evidence) == pytest.approx(1.0, abs=1e-9)
    assert sum(e.posterior for e in evidence) == pytest.approx(1.0, abs=1e-9)
    assert sum(e.support for e in evidence) == pytest.approx(0.0, abs=1e-9)
    assert [e.rank for e in evidence] == list(range(1, len(evidence) + 1))
    assert [e.posterior for e in evidence] == sorted((e.posterior for e in evidence), reverse=True)
    said = answer.answer.probability if answer.answer else answer.no_answer_probability
    assert said == pytest.approx(sum(e.prior * e.likelihood for e in evidence), abs=1e-9)
    for e in evidence:
        assert sum(c.likelihood for c in e.candidates) + (e.no_answer_likelihood or 0.0) <= 1 + 1e-9
        assert len({c.key for c in e.candidates}) == len(e.candidates)
        for c in e.candidates:
            assert e.text[c.start : c.end] == c.text  # as the block has it
            assert c.key == (normalise_answer(c.text) or c.text.casefold())
        span = next((c for c in e.candidates if (c.start, c.end) == (e.start, e.end)), None)
        assert (span is None) == (e.start is None)
        assert span is None or (
            answer.answer is not None and normalise_answer(span.text) == normalise_answer(answer.answer.text)
        )
    assert (answer.no_answer_probability is None) == (answer.normalisation != "block+null")
    total = sum(a.probability for a in answer.answers) + (answer.no_answer_probability or 0.0)
    assert total <= 1 + 1e-9


# ── The numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_numbers_add_up(engine: Engine, question: str, normalisation: Normalisation) -> None:
    answer = engine.ask(question, k=5, normalisation=normalisation)
    assert (answer.question, answer.normalisation, len(answer.evidence)) == (question, normalisation, 5)
    check_sums(answer)


@settings(max_examples=25)
@given(question=st.text(min_size=1, max_size=80), k=st.integers(1, 20), normalisation=st.sampled_from(NORMALISATIONS))
def test_the_numbers_add_up_whatever_is_asked(
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
def test_odd_questions_are_questions(engine: Engine, kind: str) -> None:
    answer = engine.ask(ODD_QUESTIONS[kind])
    assert answer.question == ODD_QUESTIONS[kind].strip()
    check_sums(answer)


def test_weights_are_the_retrievers_but_under_joint(precise: Engine) -> None:
    for normalisation in NORMALISATIONS:
        evidence = precise.ask(QUESTIONS[0], normalisation=normalisation).evidence
        same = [e.prior == pytest.approx(e.retriever_prior, abs=1e-9) for e in evidence]
        assert all(same) == (normalisation != "joint")


def test_the_normalisation_is_the_models_unless_another_is_asked_for(precise: Engine) -> None:
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


def test_an_answer_says_what_it_was_made_from(precise: Engine, deployment: Deployment) -> None:
    answer = precise.ask(QUESTIONS[0])
    assert (answer.model, answer.index, answer.corpus) == (precise.model_id, precise.index_id, precise.corpus_id)
    assert precise.index_id == deployment.index.name
    assert precise.corpus_id == f"tiny@{deployment.corpus.name}"
    assert precise.model_id.startswith("model-0@")
    assert answer.timings_ms.keys() == {"wait", "embed", "search", "read", "marginalise"}
    assert 0 < sum(answer.timings_ms.values()) <= answer.latency_ms * 1.01
    assert Answer.from_dict(answer.as_dict()) == answer


def test_answers_keep_their_casing_and_spacing(precise: Engine) -> None:
    texts = {e.title: e.text for e in precise.ask("anything", k=12).evidence}
    assert texts == ARTICLES
    said = [a.text for a in precise.ask("anything", k=12).answers]
    assert any(text != text.lower() for text in said)
    assert all(any(text in body for body in ARTICLES.values()) for text in said)


# ── What is asked for ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("k", [0, -1, MAX_BLOCKS + 1])
def test_a_number_of_blocks_out_of_range_is_refused(precise: Engine, k: int) -> None:
    with pytest.raises(RealmError, match=f"k must be from 1 to {MAX_BLOCKS}, not {k}"):
        precise.ask("x", k=k)
    with pytest.raises(RealmError, match="k must be"):
        precise.retrieve("x", k=k)


@pytest.mark.parametrize("question", ["", " ", "\n\t "])
def test_an_empty_question_is_refused(precise: Engine, question: str) -> None:
    with pytest.raises(RealmError, match="question is empty"):
        precise.ask(question)


def test_excluded_blocks_are_not_read_and_unknown_ones_do_no_harm(precise: Engine) -> None:
    first = precise.ask("x", k=3).evidence
    excluded = [first[0].block_id, "0" * 32, "nonsense"]
    again = precise.ask("x", k=3, exclude=excluded).evidence
    assert len(again) == 3 and first[0].block_id not in {e.block_id for e in again}


def test_with_everything_excluded_there_is_no_answer(precise: Engine) -> None:
    everything = [e.block_id for e in precise.ask("x", k=12).evidence]
    answer = precise.ask("x", exclude=everything)
    assert (answer.answer, answer.evidence, answer.explains) == (None, (), "no_answer")
    assert precise.retrieve("x", exclude=everything) == []


def test_retrieving_finds_the_blocks_that_asking_reads(precise: Engine) -> None:
    found = precise.retrieve(QUESTIONS[1], k=4)
    read = {e.block_id: e for e in precise.ask(QUESTIONS[1], k=4).evidence}
    assert [b.rank for b in found] == [1, 2, 3, 4]
    assert [b.score for b in found] == sorted((b.score for b in found), reverse=True)
    assert sum(b.prior for b in found) == pytest.approx(1.0)
    for b in found:
        own = read[b.block_id]
        assert (b.title, b.text, b.url, b.section) == (own.title, own.text, own.url, own.section)
        assert (b.score, b.prior) == pytest.approx((own.retriever_score, own.retriever_prior), abs=1e-5)


def test_a_block_is_found_by_its_id(precise: Engine) -> None:
    found = precise.retrieve("x", k=1)[0]
    known = precise.block(found.block_id)
    assert known is not None and (known.title, known.text) == (found.title, found.text)
    assert precise.block("0" * 32) is None and precise.block("nonsense") is None


@pytest.mark.parametrize("search", ["Flat", "HNSW32"])
def test_faiss_may_search(deployment: Deployment, precise: Engine, search: str) -> None:
    engine = engine_of(deployment, search=search)
    for question in QUESTIONS[:2]:
        assert_alike(engine.ask(question), precise.ask(question))
        check_sums(engine.ask(question, exclude=[precise.ask(question).evidence[0].block_id]))
    engine.close()


def test_blocks_without_a_word_are_read_too(deployment: Deployment) -> None:
    corpus = tiny_snapshot(deployment.root / "blank", {"Blank": "\u2060\u2060.", "Dots": ". . ."})
    index = build(deployment.model, corpus, deployment.root / "blank-indexes", Activity(quiet=True), device="cpu")
    engine = Engine.load(deployment.model, index, corpus, device="cpu")
    for normalisation in NORMALISATIONS:
        check_sums(engine.ask("x", normalisation=normalisation))
    engine.close()


# ── Many at once ────────────────────────────────────────────────────────────────────────────────────────────────────


class Held:
    """An engine whose thread is kept busy by a first question, so that others wait for the same batch."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[list[str]] = []
        self.busy, self.release = threading.Event(), threading.Event()
        answer = engine._answer

        def watched(batch: Sequence[Any]) -> None:
            self.batches.append([question.text for _, question in batch])
            if batch[0][1].text == "hold":
                self.busy.set()
                assert self.release.wait(60)
            if any(question.text == "bad" for _, question in batch):
                raise MemoryError("no room for this one")
            answer(batch)

        monkeypatch.setattr(engine, "_answer", watched)


def ask_behind(engine: Engine, held: Held, pool: ThreadPoolExecutor, questions: Sequence[str]) -> list[Any]:
    """Ask `questions` while a first one is being answered; their futures, once all of them wait."""
    first = pool.submit(engine.ask, "hold")
    assert held.busy.wait(60)
    futures = [pool.submit(engine.ask, question) for question in questions]
    while engine.waiting < len(questions):
        threading.Event().wait(0.001)
    return [first, *futures]


def test_two_engines_of_one_process_compute_one_after_the_other(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are while a deployment changes."""
    engine, other = engine_of(deployment), engine_of(deployment)
    held, second = Held(engine, monkeypatch), Held(other, monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.ask, "hold")
        assert held.busy.wait(60)
        waits = pool.submit(other.ask, QUESTIONS[0])
        time.sleep(0.3)
        assert not waits.done() and not second.batches
        held.release.set()
        assert first.result(60).question == "hold" and waits.result(60).question == QUESTIONS[0]
    engine.close()
    other.close()


def test_loading_several_at_once_leaves_the_number_of_threads_as_it_was(deployment: Deployment) -> None:
    def threads() -> int:
        with ThreadPoolExecutor(1) as new:  # one that computes for the first time
            return new.submit(torch.get_num_threads).result()

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with ThreadPoolExecutor(3) as pool:
            engines = list(pool.map(engine_of, [deployment] * 3))
        assert threads() == 3
    finally:
        torch.set_num_threads(before)
    for engine in engines:
        engine.close()


def test_an_engine_answers_while_another_is_loaded(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two steps of the loading, whatever that takes: nobody waits for the whole of it."""
    monkeypatch.setattr("realm_core.engine._STEP_S", 0.0)
    engine, answered = engine_of(deployment), 0
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(engine_of, deployment)
        while not loading.done():
            engine.ask(QUESTIONS[0])
            answered += 1
    assert answered > 10
    assert loading.result().ask(QUESTIONS[0]).answers == engine.ask(QUESTIONS[0]).answers
    loading.result().close()
    engine.close()


def test_twenty_askers_get_what_one_after_the_other_gets(precise: Engine) -> None:
    questions = [f"{question} {number}" for number in range(4) for question in QUESTIONS]
    alone = [precise.ask(question, k=1 + number % 7) for number, question in enumerate(questions)]
    together = threading.Barrier(len(questions))

    def ask(number: int) -> Answer:
        together.wait(60)
        return precise.ask(questions[number], k=1 + number % 7)

    with ThreadPoolExecutor(len(questions)) as pool:
        for one, other in zip(pool.map(ask, range(len(questions))), alone, strict=True):
            assert_alike(one, other)
            check_sums(one)


def test_questions_that_wait_are_answered_together(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(deployment)
    held = Held(engine, monkeypatch)
    with ThreadPoolExecutor(32) as pool:
        futures = ask_behind(engine, held, pool, [f"q{number}" for number in range(20)])
        held.release.set()
        answers = [future.result(60) for future in futures]
    assert sorted(answer.question for answer in answers) == sorted(["hold", *(f"q{number}" for number in range(20))])
    assert [len(batch) for batch in held.batches] == [1, 16, 4]
    engine.close()


def test_a_question_that_fails_fails_alone(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(deployment)
    held = Held(engine, monkeypatch)
    with ThreadPoolExecutor(8) as pool:
        futures = ask_behind(engine, held, pool, ["one", "bad", "two"])
        held.release.set()
        assert [future.result(60).question for future in (futures[1], futures[3])] == ["one", "two"]
        with pytest.raises(MemoryError, match="no room for this one"):
            futures[2].result(60)
    assert engine.ask("three").question == "three"
    engine.close()


def test_closing_answers_what_waits_and_refuses_what_comes_later(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(deployment)
    held = Held(engine, monkeypatch)
    with ThreadPoolExecutor(8) as pool:
        futures = ask_behind(engine, held, pool, ["one", "two"])
        closing = pool.submit(engine.close)
        while not engine._line.closed:
            threading.Event().wait(0.001)
        with pytest.raises(RealmError, match="engine has been closed"):
            engine.ask("late")
        held.release.set()
        closing.result(60)
        assert [future.result(60).question for future in futures] == ["hold", "one", "two"]
    assert not engine._thread.is_alive()
    engine.close()  # again does no harm


def test_who_watches_is_told_of_every_batch(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(deployment)
    told: list[tuple[int, int]] = []
    engine.on_batch = lambda size, left: told.append((size, left))
    held = Held(engine, monkeypatch)
    with ThreadPoolExecutor(32) as pool:
        futures = ask_behind(engine, held, pool, [f"q{number}" for number in range(20)])
        held.release.set()
        assert [future.result(60).question for future in futures[:1]] == ["hold"]
    engine.close()
    assert told == [(1, 20), (16, 4), (4, 0)]


def test_who_watches_and_fails_ends_nothing(deployment: Deployment) -> None:
    engine = engine_of(deployment, deadline_s=60)

    def fail(*_numbers: int) -> None:
        raise OSError("no room for the counters")

    engine.on_batch = fail
    assert [engine.ask(question).question for question in ("one", "two")] == ["one", "two"]
    engine.close()


def test_a_line_that_is_full_takes_nobody_and_says_when_to_come_back(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(deployment, capacity=3)
    held = Held(engine, monkeypatch)
    with ThreadPoolExecutor(8) as pool:
        futures = ask_behind(engine, held, pool, ["one", "two", "three"])
        for refused in (engine.ask, engine.retrieve):
            with pytest.raises(EngineUnavailable, match="3 questions are waiting already") as caught:
                refused("four")
            assert caught.value.retry_after_s >= 1
        held.release.set()
        assert [future.result(60).question for future in futures] == ["hold", "one", "two", "three"]
    assert engine.ask("four").question == "four"
    engine.close()


def test_who_waited_too_long_or_is_gone_costs_nothing(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(deployment, deadline_s=0.4)
    monkeypatch.setattr("realm_core.waiting._LISTENS_AFTER_S", 0.05)
    held = Held(engine, monkeypatch)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(engine.ask, "hold")
        assert held.busy.wait(60)
        for gone in (engine.ask, engine.retrieve):
            with pytest.raises(EngineUnavailable, match="gone"):
                gone("gone", listens=lambda: False)
        with pytest.raises(EngineUnavailable, match=r"no answer within 0\.4 seconds"):
            engine.ask("late", listens=lambda: True)
        with pytest.raises(EngineUnavailable, match=r"no answer within 0\.4 seconds"):
            first.result(60)  # also who is being served waits no longer
        assert engine.waiting == 0
        held.release.set()
    assert engine.ask("next").question == "next"
    assert held.batches == [["hold"], ["next"]]
    engine.close()


def test_warming_up_answers_something(deployment: Deployment) -> None:
    engine = engine_of(deployment)
    engine.warm_up()
    engine.close()
