"""The line in front of the engine, by itself: whoever comes, waits, gives up or is served, at any instant."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from realm_core.errors import EngineUnavailable
from realm_core.serving.waiting import Line

ASKERS = 16
EACH = 40


def test_whoever_gives_up_at_any_instant_harms_nobody() -> None:
    """Deadlines about as long as a turn takes: many pass while their asker is being taken out of the line or served."""
    line: Line[int] = Line(capacity=ASKERS // 2, deadline_s=60)
    taken: list[int] = []

    def serve() -> None:
        while batch := line.take(3):
            time.sleep(0.0005)
            for waiter in batch:
                taken.append(waiter.wanted)
                waiter.future.set_result(-waiter.wanted)  # raises for one who was let go: the thread would end
            line.took(0.0005, len(batch))

    def ask(asker: int) -> Counter[str]:
        chance, outcomes = random.Random(asker), Counter[str]()
        for wanted in range(asker * EACH + 1, (asker + 1) * EACH + 1):
            try:
                assert line.ask(wanted, deadline_s=chance.uniform(0.0001, 0.004)) == -wanted
                outcomes["own"] += 1
            except EngineUnavailable as unavailable:
                assert unavailable.retry_after_s >= 1
                outcomes["refused"] += 1
        return outcomes

    engine = threading.Thread(target=serve, daemon=True)
    engine.start()
    with ThreadPoolExecutor(ASKERS) as askers:
        outcomes = sum(askers.map(ask, range(ASKERS)), Counter[str]())
    assert outcomes.total() == ASKERS * EACH and len(outcomes) == 2, outcomes
    assert len(line) == 0 and len(taken) == len(set(taken)), "somebody was left in the line, or served twice"
    assert line.ask(1_000_000) == -1_000_000
    line.close()
    engine.join(60)
    assert not engine.is_alive()


def test_first_come_first_served_and_nobody_is_passed_over() -> None:
    line: Line[int] = Line(capacity=10, deadline_s=60)
    with ThreadPoolExecutor(5) as askers:
        futures = []
        for wanted in range(5):
            futures.append(askers.submit(line.ask, wanted))
            while len(line) <= wanted:
                time.sleep(0.001)
        batches = [line.take(2) or [] for _ in range(3)]
        assert [[waiter.wanted for waiter in batch] for batch in batches] == [[0, 1], [2, 3], [4]]
        for waiter in (waiter for batch in batches for waiter in batch):
            waiter.future.set_result(waiter.wanted)
        assert [future.result(60) for future in futures] == [0, 1, 2, 3, 4]


def test_who_gives_up_leaves_at_once() -> None:
    line: Line[int] = Line(capacity=1, deadline_s=60)
    for _ in range(2):  # there is room for the second because the first has left
        with pytest.raises(EngineUnavailable, match="within"):
            line.ask(0, deadline_s=0.001)
    assert len(line) == 0


def test_all_are_gone() -> None:
    """Whoever takes is told, and may tell that nobody waits any more."""
    line: Line[int] = Line(capacity=5, deadline_s=60)
    with ThreadPoolExecutor(2) as askers:
        futures = [askers.submit(line.ask, wanted, listens=lambda: False) for wanted in range(2)]
        while len(line) < 2:
            time.sleep(0.001)
        assert line.take(5) == [] and len(line) == 0
        for future in futures:
            with pytest.raises(EngineUnavailable, match="gone"):
                future.result(60)


def test_who_is_gone_leaves_when_the_next_are_taken() -> None:
    """Wherever they stand; also when the line is closed, and everybody else is still served."""
    line: Line[int] = Line(capacity=5, deadline_s=60)
    gone = {0, 3}
    with ThreadPoolExecutor(5) as askers:
        futures = []
        for wanted in range(5):
            futures.append(askers.submit(line.ask, wanted, listens=lambda wanted=wanted: wanted not in gone))
            while len(line) <= wanted:
                time.sleep(0.001)
        (first,) = line.take(1) or []
        assert first.wanted == 1 and len(line) == 2
        for one in gone:
            with pytest.raises(EngineUnavailable, match="gone"):
                futures[one].result(60)
        gone.add(2)
        line.close()
        (last,) = line.take(5) or []
        assert last.wanted == 4 and line.take(1) is None
        for waiter in (first, last):
            waiter.future.set_result("served")
            assert futures[waiter.wanted].result(60) == "served"


@pytest.mark.parametrize(("pace_s", "wait_s"), [(0.0, 1), (0.1, 1), (2.0, 4), (100.0, 30)])
def test_who_is_sent_away_is_told_when_the_line_will_be_empty(pace_s: float, wait_s: int) -> None:
    line: Line[int] = Line(capacity=2, deadline_s=30)
    line.took(pace_s * 4, served=4)
    with ThreadPoolExecutor(2) as askers:
        futures = [askers.submit(line.ask, wanted) for wanted in range(2)]
        while len(line) < 2:
            time.sleep(0.001)
        with pytest.raises(EngineUnavailable) as refused:
            line.ask(2)
        assert refused.value.retry_after_s == wait_s
        for waiter in line.take(2) or []:
            waiter.future.set_result(None)
        assert [future.result(60) for future in futures] == [None, None]
