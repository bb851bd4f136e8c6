"""The engine's request queue by itself: requests that wait, time out, disconnect or are served at any instant."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from realm_core.errors import EngineUnavailable
from realm_core.serving.waiting import RequestQueue

ASKERS = 16
EACH = 40


def test_a_timeout_at_any_instant_harms_no_other_request() -> None:
    """Deadlines about as long as a batch takes: many pass while their request is being dequeued or served."""
    queue: RequestQueue[int] = RequestQueue(capacity=ASKERS // 2, deadline_s=0.004)
    taken: list[int] = []

    def serve() -> None:
        while batch := queue.take(3):
            time.sleep(0.0005)
            for queued in batch:
                taken.append(queued.request)
                queued.future.set_result(-queued.request)  # raises if it is done already: the thread would end
            queue.record_batch(0.0005, len(batch))

    def ask(asker: int) -> Counter[str]:
        chance, outcomes = random.Random(asker), Counter[str]()
        for request in range(asker * EACH + 1, (asker + 1) * EACH + 1):
            try:
                queue.deadline_s = chance.uniform(0.0001, 0.004)
                assert queue.submit(request) == -request
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
    assert len(queue) == 0 and len(taken) == len(set(taken)), "a request was left in the queue, or served twice"
    queue.deadline_s = 60
    assert queue.submit(1_000_000) == -1_000_000
    queue.close()
    engine.join(60)
    assert not engine.is_alive()


def test_requests_are_served_in_order() -> None:
    queue: RequestQueue[int] = RequestQueue(capacity=10, deadline_s=60)
    with ThreadPoolExecutor(5) as askers:
        futures = []
        for request in range(5):
            futures.append(askers.submit(queue.submit, request))
            while len(queue) <= request:
                time.sleep(0.001)
        batches = [queue.take(2) or [] for _ in range(3)]
        assert [[queued.request for queued in batch] for batch in batches] == [[0, 1], [2, 3], [4]]
        for queued in (queued for batch in batches for queued in batch):
            queued.future.set_result(queued.request)
        assert [future.result(60) for future in futures] == [0, 1, 2, 3, 4]


def test_a_request_leaves_the_queue_at_its_deadline() -> None:
    queue: RequestQueue[int] = RequestQueue(capacity=1, deadline_s=0.001)
    for _ in range(2):  # there is room for the second because the first has left
        with pytest.raises(EngineUnavailable, match="within"):
            queue.submit(0)
    assert len(queue) == 0


def test_all_clients_have_disconnected() -> None:
    """take returns an empty batch, so that the engine can report an empty queue."""
    queue: RequestQueue[int] = RequestQueue(capacity=5, deadline_s=60)
    with ThreadPoolExecutor(2) as askers:
        futures = [askers.submit(queue.submit, request, listens=lambda: False) for request in range(2)]
        while len(queue) < 2:
            time.sleep(0.001)
        assert queue.take(5) == [] and len(queue) == 0
        for future in futures:
            with pytest.raises(EngineUnavailable, match="disconnected"):
                future.result(60)


def test_disconnected_clients_leave_when_the_next_batch_is_taken() -> None:
    """At any position; also when the queue is closed, and all others are still served."""
    queue: RequestQueue[int] = RequestQueue(capacity=5, deadline_s=60)
    disconnected = {0, 3}
    with ThreadPoolExecutor(5) as askers:
        futures = []
        for request in range(5):
            futures.append(
                askers.submit(queue.submit, request, listens=lambda request=request: request not in disconnected)
            )
            while len(queue) <= request:
                time.sleep(0.001)
        (first,) = queue.take(1) or []
        assert first.request == 1 and len(queue) == 2
        for one in disconnected:
            with pytest.raises(EngineUnavailable, match="disconnected"):
                futures[one].result(60)
        disconnected.add(2)
        queue.close()
        (last,) = queue.take(5) or []
        assert last.request == 4 and queue.take(1) is None
        for queued in (first, last):
            queued.future.set_result("served")
            assert futures[queued.request].result(60) == "served"


@pytest.mark.parametrize(("service_time_s", "wait_s"), [(0.0, 1), (0.1, 1), (2.0, 4), (100.0, 30)])
def test_a_refused_request_is_told_when_the_queue_will_be_empty(service_time_s: float, wait_s: int) -> None:
    queue: RequestQueue[int] = RequestQueue(capacity=2, deadline_s=30)
    queue.record_batch(service_time_s * 4, served=4)
    with ThreadPoolExecutor(2) as askers:
        futures = [askers.submit(queue.submit, request) for request in range(2)]
        while len(queue) < 2:
            time.sleep(0.001)
        with pytest.raises(EngineUnavailable) as refused:
            queue.submit(2)
        assert refused.value.retry_after_s == wait_s
        for queued in queue.take(2) or []:
            queued.future.set_result(None)
        assert [future.result(60) for future in futures] == [None, None]
