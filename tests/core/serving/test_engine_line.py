"""Many requests at once: they are answered in batches, whatever times out, fails, loads or closes meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from realm_core import computing
from realm_core.errors import EngineUnavailable, RealmError
from realm_core.serving.engine import Engine
from realm_core.serving.provenance import Answer
from tests.core.conftest import Deployment
from tests.core.engines import QUESTIONS, assert_alike, check_sums, engine_of
from tests.waiting import wait_until


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
            if any(question.text == "away" for _, question in batch):
                raise EngineUnavailable("A server does not answer.")
            answer(batch)

        monkeypatch.setattr(engine, "_answer", watched)


def ask_behind(engine: Engine, held: Held, pool: ThreadPoolExecutor, questions: Sequence[str]) -> list[Any]:
    """Ask `questions` while a first one is computed; their futures, once all are queued."""
    first = pool.submit(engine.ask, "hold")
    assert held.busy.wait(60)
    futures = [pool.submit(engine.ask, question) for question in questions]
    while engine.waiting < len(questions):
        threading.Event().wait(0.001)
    return [first, *futures]


def test_two_engines_of_one_process_do_not_compute_concurrently(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are loaded while a deployment changes."""
    engine, other = engine_of(deployment), engine_of(deployment)
    held, second = Held(engine, monkeypatch), Held(other, monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.ask, "hold")
        assert held.busy.wait(60)
        waits = pool.submit(other.ask, QUESTIONS[0])
        wait_until(lambda: computing._processors.waiting == 1)
        assert not waits.done() and not second.batches
        held.release.set()
        assert first.result(60).question == "hold" and waits.result(60).question == QUESTIONS[0]
    engine.close()
    other.close()


def test_an_engine_answers_while_another_is_loaded(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """No request waits for the whole of the loading."""
    monkeypatch.setattr("realm_core.pace._STEP_S", 0.0)  # it rests often
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


def test_concurrent_questions_get_the_same_answers_as_sequential_ones(precise: Engine) -> None:
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


def test_queued_questions_are_answered_in_batches(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(deployment)
    held = Held(engine, monkeypatch)
    with ThreadPoolExecutor(80) as pool:
        futures = ask_behind(engine, held, pool, [f"q{number}" for number in range(70)])
        held.release.set()
        answers = [future.result(60) for future in futures]
    assert sorted(answer.question for answer in answers) == sorted(["hold", *(f"q{number}" for number in range(70))])
    assert [len(batch) for batch in held.batches] == [1, 64, 6]
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


def test_what_no_question_can_help_fails_all_at_once(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by itself would wait for the server as long again."""
    engine = engine_of(deployment)
    held = Held(engine, monkeypatch)
    with ThreadPoolExecutor(8) as pool:
        futures = ask_behind(engine, held, pool, ["one", "away", "two"])
        held.release.set()
        for future in futures[1:]:
            with pytest.raises(EngineUnavailable, match="does not answer"):
                future.result(60)
    assert [len(batch) for batch in held.batches] == [1, 3] and engine.ask("three").question == "three"
    engine.close()


def test_closing_answers_queued_requests_and_refuses_later_ones(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(deployment)
    held = Held(engine, monkeypatch)
    with ThreadPoolExecutor(8) as pool:
        futures = ask_behind(engine, held, pool, ["one", "two"])
        closing = pool.submit(engine.close)
        while not engine._queue.closed:
            threading.Event().wait(0.001)
        with pytest.raises(RealmError, match="engine has been closed"):
            engine.ask("late")
        held.release.set()
        closing.result(60)
        assert [future.result(60).question for future in futures] == ["hold", "one", "two"]
    assert not engine._thread.is_alive()
    engine.close()  # again does no harm


def test_on_batch_is_called_for_every_batch(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realm_core.serving.engine.BATCH_QUESTIONS", 16)
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


def test_an_error_in_on_batch_stops_nothing(deployment: Deployment) -> None:
    engine = engine_of(deployment, deadline_s=60)

    def fail(*_numbers: int) -> None:
        raise OSError("no room for the counters")

    engine.on_batch = fail
    assert [engine.ask(question).question for question in ("one", "two")] == ["one", "two"]
    engine.close()


def test_a_full_queue_refuses_requests_with_a_time_to_retry(
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


def test_timed_out_or_disconnected_requests_cost_nothing(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(deployment, deadline_s=0.4)
    held, told = Held(engine, monkeypatch), list[tuple[int, int]]()
    engine.on_batch = lambda size, left: told.append((size, left))
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(engine.ask, "hold")
        assert held.busy.wait(60)
        with pytest.raises(EngineUnavailable, match=r"no answer within 0\.4 seconds"):
            engine.ask("late", listens=lambda: True)
        with pytest.raises(EngineUnavailable, match=r"no answer within 0\.4 seconds"):
            first.result(60)  # the deadline also holds for a request that is being computed
        assert engine.waiting == 0
        engine._queue.deadline_s = 60
        gone = [pool.submit(ask, "gone", listens=lambda: False) for ask in (engine.ask, engine.retrieve)]
        wait_until(lambda: engine.waiting == 2)
        held.release.set()
        for one in gone:
            with pytest.raises(EngineUnavailable, match="disconnected"):
                one.result(60)
    assert engine.ask("next").question == "next"
    engine.close()
    assert held.batches == [["hold"], ["next"]]
    # Disconnected requests are not counted as waiting; the next may have arrived before the callback.
    assert told in ([(1, 2), (0, 0), (1, 0)], [(1, 2), (0, 1), (1, 0)])


@pytest.mark.parametrize("others_listen", [False, True])
def test_a_batch_is_read_on_only_while_a_client_of_it_is_connected(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, others_listen: bool
) -> None:
    engine = engine_of(deployment)
    held, gone, read = Held(engine, monkeypatch), threading.Event(), list[str]()
    answer = engine._reading.answer

    def leaves_after_the_first(question: str, *about: Any) -> Answer:
        read.append(question)
        if question == "first":
            gone.set()
        return answer(question, *about)

    monkeypatch.setattr(engine._reading, "answer", leaves_after_the_first)
    with ThreadPoolExecutor(8) as pool:
        pool.submit(engine.ask, "hold")
        assert held.busy.wait(60)
        futures = []
        for number, question in enumerate(("first", "second", "third")):
            listens = (lambda: True) if others_listen and question == "third" else (lambda: not gone.is_set())
            futures.append(pool.submit(engine.ask, question, as_typed=True, listens=listens))
            wait_until(lambda number=number: engine.waiting == number + 1)  # type: ignore[misc]
        held.release.set()
        errors = [type(future.exception(60)) for future in futures]
    engine.close()
    assert held.batches == [["hold"], ["first", "second", "third"]]
    if others_listen:
        assert errors == [type(None)] * 3 and read == ["hold", "first", "second", "third"]
    else:
        assert errors == [type(None), EngineUnavailable, EngineUnavailable] and read == ["hold", "first"]


def test_a_closed_engine_releases_its_memory_when_no_other_computes(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    waits = threading.Event()

    def sleep(seconds: float) -> None:
        events.append("waits")
        waits.set()
        time.sleep(seconds)

    engine, other = engine_of(deployment), engine_of(deployment)
    held = Held(engine, monkeypatch)
    answer_when_released = engine._answer

    def answer(batch: Sequence[Any]) -> None:
        answer_when_released(batch)
        events.append("answered")

    monkeypatch.setattr(engine, "_answer", answer)
    monkeypatch.setattr(computing, "time", SimpleNamespace(perf_counter=time.perf_counter, sleep=sleep))
    monkeypatch.setattr("realm_core.serving.engine.release_memory", lambda: events.append("memory released"))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.ask, "hold")
        assert held.busy.wait(60)
        closing = pool.submit(other.close)
        try:
            assert waits.wait(60)
        finally:
            held.release.set()
        assert first.result(60).question == "hold"
        closing.result(30)
    assert list(dict.fromkeys(events)) == ["waits", "answered", "memory released"]
    engine.close()


def test_warming_up_answers_test_requests(deployment: Deployment) -> None:
    engine = engine_of(deployment)
    engine.warm_up()
    engine.close()
