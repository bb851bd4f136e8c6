"""One thread computes for everybody: one thing after the other, long work in steps, whatever fails."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from realm_core import computing
from realm_core.computing import _Processors, compute, compute_each, compute_in_steps
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


def test_long_work_lets_others_have_their_turn_between_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under another device and with gradients in the one, with neither in the other."""
    monkeypatch.setattr("realm_core.computing._STEP_S", 0.0)
    answered = threading.Event()

    def long() -> int:
        steps = 0
        with torch.device("meta"):
            while not answered.is_set():
                made = torch.zeros(3, requires_grad=True) + 1
                assert made.is_meta and made.requires_grad
                steps += 1
        return steps

    def short() -> torch.Tensor:
        with torch.inference_mode():
            return torch.zeros(3) + 2

    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(compute_in_steps, long)
        try:
            results = [compute(short) for _ in range(20)]
        finally:
            answered.set()
        assert under_way.result(60) > 0
    assert all(result.tolist() == [2.0] * 3 for result in results)


def test_what_fails_between_two_steps_does_not_end_the_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realm_core.computing._STEP_S", 0.0)
    over = threading.Event()

    def long() -> str:
        while not over.is_set():
            torch.zeros(3)
        return "done"

    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(compute_in_steps, long)
        with pytest.raises(ZeroDivisionError):
            compute(lambda: 1 // 0)
        over.set()
        assert under_way.result(60) == "done"


def test_a_forked_child_computes_with_a_thread_of_its_own() -> None:
    assert compute(lambda: 1) == 1
    child = os.fork()
    if child == 0:
        threading.Timer(30, os._exit, [1]).start()
        os._exit(0 if compute(lambda: 2) == 2 else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Long work is under way whose steps have no end: others have a turn only where it gives way."""
    monkeypatch.setattr("realm_core.computing._STEP_S", float("inf"))
    monkeypatch.setattr("realm_core.computing._processors", _Processors())
    compute(lambda: None, since=time.perf_counter() - 3600)  # an hour's wait counts among the usual ones
    begun, over = threading.Event(), threading.Event()

    def long() -> None:
        begun.set()
        while not over.is_set():
            torch.zeros(3)

    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(compute_in_steps, long)
        try:
            assert begun.wait(60)
            yield
        finally:
            over.set()
        under_way.result(60)


def not_served(since: float | None) -> None:
    """Somebody who asks has no turn for a while; their thread ends with the long work."""
    asked = threading.Thread(target=compute, args=(lambda: None,), kwargs={"since": since}, daemon=True)
    asked.start()
    wait_until(lambda: _waiting() == 1)
    asked.join(0.3)
    assert asked.is_alive()


@pytest.mark.usefixtures("endless")
def test_long_work_gives_way_to_those_who_have_waited_longer_than_usual_but_not_for_ever() -> None:
    ago = [time.perf_counter() - 3600 * (hours + 2) for hours in range(8)]
    for since in ago[:7]:
        compute(lambda: None, since=since)
    not_served(ago[7])


@pytest.mark.usefixtures("endless")
def test_long_work_does_not_give_way_to_those_who_have_just_come() -> None:
    not_served(None)


def _waiting() -> int:
    return computing._processors.waiting
