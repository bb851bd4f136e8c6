"""One thread computes for everybody, one thing after the other; long work aside, slowly, whatever fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import cast
from unittest.mock import Mock

import pytest
import torch

from realm_core import computing
from realm_core.computing import compute, compute_aside, compute_each, in_one_thread, wait_for_quiet
from realm_core.index.embedding import embed
from realm_core.model.embedder import Embedder
from realm_core.model.packed import Packed
from realm_core.pace import may_rest
from realm_core.text.joins import Joined
from tests.core.processes import start
from tests.waiting import wait_until


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Of the thread that computes, also where there is one processor."""
    usual = compute(torch.get_num_threads)
    compute(lambda: torch.set_num_threads(2))
    yield
    compute(lambda: torch.set_num_threads(usual))


def test_work_is_done_by_one_thread_in_the_order_in_which_it_was_asked_for() -> None:
    begun, go_on, done = threading.Event(), threading.Event(), list[int]()

    def hold() -> threading.Thread:
        begun.set()
        assert go_on.wait(60)
        return threading.current_thread()

    def note(number: int) -> threading.Thread:
        done.append(number)
        return threading.current_thread()

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(compute, hold)
        assert begun.wait(60)
        others = []
        for number in range(6):
            waiting = len(others)
            others.append(pool.submit(compute, lambda number=number: note(number)))
            wait_until(lambda waiting=waiting: _waiting() > waiting)
        assert not done
        go_on.set()
        assert len({future.result(60) for future in (first, *others)}) == 1
    assert done == list(range(6))
    assert first.result() is not threading.current_thread()


def test_work_that_fails_fails_for_whoever_asked_and_the_next_is_done() -> None:
    with pytest.raises(ZeroDivisionError):
        compute(lambda: 1 // 0)
    assert compute(lambda: compute(lambda: 2)) == 2  # within other work: at once


def test_pieces_are_done_at_once_by_single_threads_and_come_back_in_order(two_threads: None) -> None:
    both = threading.Barrier(2, timeout=60)

    def piece(number: int) -> tuple[int, int]:
        if number < 2:
            both.wait()  # neither ends before the other has begun
        return number, torch.get_num_threads()

    done = compute(lambda: list(compute_each([lambda number=number: piece(number) for number in range(5)])))
    assert done == [(number, 1) for number in range(5)]
    assert compute(torch.get_num_threads) == 2


def test_small_work_is_done_by_one_thread_and_what_fails_leaves_the_others(two_threads: None) -> None:
    """Two threads that share a processor with a training wait for each other at every operation of a question."""
    threads = list[int]()

    def embedded(pieces: Packed) -> torch.Tensor:
        threads.append(torch.get_num_threads())
        return torch.zeros(len(pieces.lengths), 4)

    embedder = cast(Embedder, Mock(side_effect=embedded, dense=torch.nn.Linear(4, 4)))
    question, passage = (Joined([5] * length, [0] * length, 1, length - 1) for length in (12, 200))
    for joined in ([question], [question, question], [passage]):
        assert compute(partial(embed, embedder, joined)).shape == (len(joined), 4)
    assert threads == [1, 1, 2]

    def fail() -> None:
        with in_one_thread():
            raise KeyError

    with pytest.raises(KeyError):
        compute(fail)
    assert compute(torch.get_num_threads) == 2


def test_a_piece_that_fails_fails_the_whole_once_all_are_done(two_threads: None) -> None:
    done = list[int]()

    def piece(number: int) -> None:
        if number == 0:
            raise KeyError(number)
        done.append(number)

    with pytest.raises(KeyError):
        compute(lambda: list(compute_each([lambda number=number: piece(number) for number in range(4)])))
    assert sorted(done) == [1, 2, 3]
    assert compute(torch.get_num_threads) == 2


def test_a_process_that_ends_computes_what_it_has_begun(two_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its interpreter has closed all pools of threads by then."""
    helpers = ThreadPoolExecutor()
    helpers.shutdown()
    monkeypatch.setattr("realm_core.computing._helpers", helpers)
    works = [lambda number=number: number * number for number in range(4)]
    assert compute(lambda: list(compute_each(works))) == [0, 1, 4, 9]
    assert compute(torch.get_num_threads) == 2


def test_work_aside_is_done_beside_what_others_ask_for(two_threads: None) -> None:
    """By a single thread, which is not theirs; what each says of its own devices and gradients holds for it alone."""
    answered = threading.Event()

    def long() -> tuple[threading.Thread, int]:
        with torch.device("meta"):
            while not answered.is_set():
                made = torch.zeros(3, requires_grad=True) + 1
                assert made.is_meta and made.requires_grad
        return threading.current_thread(), torch.get_num_threads()

    def short() -> tuple[threading.Thread, torch.Tensor]:
        with torch.inference_mode():
            return threading.current_thread(), torch.zeros(3) + 2

    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(compute_aside, long)
        try:
            results = [compute(short) for _ in range(20)]
        finally:
            answered.set()
        thread, threads = under_way.result(60)
    assert threads == 1 and all(other is not thread for other, _ in results)
    assert compute(torch.get_num_threads) == 2
    assert all(result.tolist() == [2.0] * 3 for _, result in results)


def test_work_aside_leaves_the_processors_to_whoever_computes_first_afterwards() -> None:
    """As in a web server, where nothing is computed before the first pair has been loaded."""
    code = """
import torch
torch.set_num_threads(2)
from realm_core.computing import compute, compute_aside
assert compute_aside(torch.get_num_threads) == 1
print(compute(torch.get_num_threads), torch.get_num_threads())
"""
    said, errors = start([], code).communicate()
    assert said.split() == ["2", "2"], errors


def test_work_aside_that_fails_fails_for_whoever_asked() -> None:
    with pytest.raises(ZeroDivisionError):
        compute_aside(lambda: 1 // 0)
    assert compute_aside(lambda: 2) == 2


@pytest.mark.parametrize("step", [lambda: torch.zeros(3), may_rest], ids=["torch", "other loops"])
def test_work_aside_rests_while_others_are_computed_for(
    step: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no limit here; it ends as soon as no other work needs the processors."""
    monkeypatch.setattr("realm_core.pace._STEP_S", 0.001)
    monkeypatch.setattr("realm_core.pace._RESTS", 1e9)
    steps, over, served = list[int](), threading.Event(), threading.Event()
    resting: list[int] = []  # after how many steps it rests, while it does

    def rest(most_s: float) -> None:
        resting.append(len(steps))
        wait_for_quiet(most_s)
        resting.pop()

    monkeypatch.setattr("realm_core.pace._wait_for_quiet", rest)

    def long() -> None:
        while not over.is_set():
            step()
            steps.append(1)

    with ThreadPoolExecutor(2) as pool:
        under_way = pool.submit(compute_aside, long)
        try:
            wait_until(lambda: bool(steps))
            others = pool.submit(compute, lambda: served.wait(60))
            wait_until(lambda: computing._processors._working and resting)
            resting_at = resting[0]
            assert not others.done() and len(steps) == resting_at
            served.set()
            assert others.result(60)
            wait_until(lambda: len(steps) > resting_at)
        finally:
            served.set()
            over.set()
        under_way.result(60)


def test_a_forked_child_computes_with_a_thread_of_its_own() -> None:
    assert compute(lambda: 1) == 1
    child = os.fork()
    if child == 0:
        threading.Timer(30, os._exit, [1]).start()
        os._exit(0 if compute(lambda: 2) == 2 else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _waiting() -> int:
    return computing._processors.waiting
