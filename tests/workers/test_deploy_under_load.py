"""Deploy and roll back over REST while people ask a real web server of two processes, each of which says what it
answers with.

Tolerance, for a machine whose few processors have other things to do as well: the median while a pair is loaded is
at most twice the usual p99 and a quarter of a second, and no question takes longer than three times the usual p99 and a
second and a half. Loading is made to take three seconds, so a question that waited for it would show. What a deployment
costs on a quiet machine is for `python -m benchmarks.deploy` to say.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from benchmarks.askers import Askers, asker, change_over, operate, percentile
from benchmarks.web import request, server
from tests import forked
from tests.tiny import QUESTIONS
from tests.waiting import wait_until
from tests.workers.work import deployed_pair, rival_of
from webapp.deployments.service import check
from webapp.models import ApiToken, AskedAnswer, Deployment, IndexGeneration, WebProcess

LOADING_TAKES_S = 3.0
THINKS_S = 0.4  # without a pause the askers would take the processors from the other tests


@pytest.fixture
def pairs(database_url: str, tmp_path: Path) -> tuple[IndexGeneration, IndexGeneration]:
    """Two models, each with an index of its own; the first is deployed."""
    first = deployed_pair(tmp_path)
    return first, rival_of(first, tmp_path)


@pytest.fixture
def web(pairs: object, web_environment: dict[str, str], tmp_path: Path) -> Iterator[tuple[int, int]]:
    """The parent's process id and the port."""
    environment = {**web_environment, "LOADING_TAKES_S": str(LOADING_TAKES_S)}
    log = tmp_path / "web.log"
    with server(environment, log, forked.start, processes=2, application="tests.workers.slow_wsgi") as (process, port):
        yield process.pid, port
    print(log.read_text(errors="replace")[-5000:])


def children(master: int) -> set[str]:
    """Ids of the processes that answer."""
    return set(Path(f"/proc/{master}/task/{master}/children").read_text(encoding="utf-8").split())


def answering() -> dict[str, int | None]:
    """What the rows say: process id → deployment, of those that answer."""
    rows = WebProcess.objects.filter(state="ready").values_list("name", "deployment")
    return {name.rpartition(":")[2]: deployment for name, deployment in rows}


@pytest.mark.timeout(170)
def test_deployments_under_load_fail_no_question(
    web: tuple[int, int], pairs: tuple[IndexGeneration, IndexGeneration], tmp_path: Path
) -> None:
    (master, port), (first, second) = web, pairs
    operator = User.objects.create_user("Stella", is_staff=True)
    _, token = ApiToken.issue(operator, "test", ["operate"])
    ask = asker(port)

    def both_have_loaded() -> bool:
        ask(QUESTIONS[0])  # of whichever process; 503 while that one is loading
        return len(set((tmp_path / "loaded.txt").read_text().splitlines())) == 2

    wait_until(both_have_loaded)
    asked_before = AskedAnswer.objects.count()
    with Askers(ask, QUESTIONS, count=3, thinks_s=THINKS_S) as askers:
        time.sleep(1)
        began = time.perf_counter()
        time.sleep(3)
        usual = askers.since(began)
        p99_ms = percentile([one.took_ms for one in usual], 0.99)
        assert {one.answered_by for one in usual} == {first.generation}

        there = change_over(
            askers,
            lambda: operate(port, token, "deployments", {"index": second.pk, "confirm": check(second).digest}),
            second.generation,
            settle_s=1.0,
        )
        earlier = first.deployments.get()
        back = change_over(
            askers,
            lambda: operate(port, token, f"deployments/{earlier.pk}/activate", {"confirm": check(first).digest}),
            first.generation,
            settle_s=1.0,
        )
    everything = askers.since(0)
    print(f"usual p99 {p99_ms:.0f} ms of {len(usual)}; there {there}; back {back}")
    assert [one.status for one in everything if one.status != 201] == []
    for change in (there, back):
        assert change.failed == 0 and change.questions > 10
        assert change.until_new_s >= LOADING_TAKES_S  # it was loaded beside the other, not taken from somewhere
        assert change.median_ms <= 2 * p99_ms + 250
        assert change.slowest_ms <= 3 * p99_ms + 1500
        assert change.until_all_s < LOADING_TAKES_S + 30
    # Every answer names what gave it, and that was the pair of its deployment.
    assert AskedAnswer.objects.count() == asked_before + len(everything)
    for answer in AskedAnswer.objects.select_related("deployment__index"):
        assert answer.payload["index"] == answer.deployment.index.generation

    active, pids = Deployment.active(), children(master)

    def all_answer_with_it() -> bool:
        request(port, "GET", "/readyz")  # of whichever process
        return active is not None and answering() == dict.fromkeys(pids, active.pk)

    wait_until(all_answer_with_it)
    killed = min(pids)
    os.kill(int(killed), signal.SIGKILL)
    wait_until(lambda: killed not in children(master))
    assert answering().keys() == pids  # it will be missed when it has been silent for a while
    os.kill(master, signal.SIGTERM)
    wait_until(lambda: answering().keys() == {killed})
