"""Jobs under real workers: they succeed, fail, stop, and survive the death of everything involved."""

from __future__ import annotations

import math
import os
import signal

import pytest
from django.utils import timezone

from tests.waiting import alive, wait_until
from tests.workers.conftest import Workers, make_job, send, steps, wait_for_state
from webapp.models import Job
from webapp.models.job import MAX_ATTEMPTS


@pytest.mark.nightly  # the test beside it kills a worker every day
@pytest.mark.timeout(600)  # of eight jobs, on a machine that may be busy
def test_each_job_of_a_worker_ends_as_it_should(workers: Workers) -> None:
    """One worker for all, because it takes longer to start than they do."""
    workers.worker()
    for case in (
        runs_to_success,
        the_same_message_twice_runs_it_once,
        fails_with_the_sentence_of_the_process,
        an_unknown_kind_fails_with_a_sentence,
        stops_when_asked,
        stops_a_process_that_does_not_listen,
        a_killed_process_goes_on,
        a_process_that_is_killed_every_time_is_given_up,
    ):
        case()


def runs_to_success() -> None:
    job = make_job(steps=5)
    send(job)
    wait_for_state(job, "succeeded")
    assert job.result == {"recorded": 5}
    assert job.progress["done"] == 5
    assert job.attempt == 1
    assert job.lease_owner == ""
    assert job.lease_expires_at is None
    assert "5 of 5 steps" in job.log
    metrics = list(job.metrics.order_by("step"))
    assert [row.step for row in metrics] == [0, 1, 2, 3, 4]
    assert math.isclose(metrics[4].values["loss"], 0.2)
    assert metrics[4].values["nothing"] is None  # NaN, which no database takes
    assert abs((timezone.now() - metrics[4].time).total_seconds()) < 60


def the_same_message_twice_runs_it_once() -> None:
    job = make_job(steps=3)
    for _ in range(3):
        send(job)
    wait_for_state(job, "succeeded")
    assert [step for _, step in steps(job)] == [0, 1, 2]
    assert job.attempt == 1


def fails_with_the_sentence_of_the_process() -> None:
    job = make_job(fail="The corpus is not there.")
    send(job)
    wait_for_state(job, "failed")
    assert job.error == "The corpus is not there."


def an_unknown_kind_fails_with_a_sentence() -> None:
    job = Job.objects.create(kind="alchemy")
    send(job)
    wait_for_state(job, "failed")
    assert "alchemy" in job.error


def stopped(**parameters: object) -> Job:
    """A job that has ended because it was asked to."""
    job = make_job(**parameters)
    send(job)
    wait_until(lambda: steps(job))
    job.refresh_from_db()
    assert job.request_stop()
    wait_for_state(job, "stopped")
    assert not alive(steps(job)[0][0])
    return job


def stops_when_asked() -> None:
    stopped(steps=1000)


def stops_a_process_that_does_not_listen() -> None:
    job = stopped(steps=3000, deaf=1, helper=1)  # five minutes; it is killed after two
    wait_until(lambda: not alive(int((job.run_dir / "helper").read_text())))


def a_killed_process_goes_on() -> None:
    job = make_job(steps=15)
    send(job)
    wait_until(lambda: len(steps(job)) >= 3)
    os.kill(steps(job)[0][0], signal.SIGKILL)
    wait_for_state(job, "succeeded")
    assert [step for _, step in steps(job)] == list(range(15))
    assert len({pid for pid, _ in steps(job)}) == 2
    assert [row.step for row in job.metrics.order_by("step")] == list(range(15))
    assert (job.attempt, job.fruitless) == (2, 1)
    assert "Its process ended by SIGKILL in attempt 1; another one goes on from what is kept." in job.log


def a_process_that_is_killed_every_time_is_given_up() -> None:
    job = make_job(steps=1000, die=2)
    send(job)
    wait_for_state(job, "interrupted")
    assert "SIGKILL" in job.error
    assert [step for _, step in steps(job)] == [0, 1]
    # One more attempt where the first one's two steps were seen before it died.
    assert (job.fruitless, job.interruptions) == (MAX_ATTEMPTS, 1) and job.attempt >= MAX_ATTEMPTS


@pytest.mark.timeout(600)  # of four workers one after another, on a machine that may be busy
def test_a_job_is_done_once_though_workers_stall_die_and_end(workers: Workers) -> None:
    """Of two workers one stalls and goes on, one is killed, and the other ends; a third one does what is left."""
    stalled = workers.worker()
    job = make_job(steps=60)
    send(job)
    wait_until(lambda: len(steps(job)) >= 3)
    stalled.send_signal(signal.SIGSTOP)
    both = {str(process.pid): process for process in (stalled, workers.worker())}
    workers.scheduler()
    # The lease runs out; the process of the stalled worker still works, and the other worker must not start one.
    wait_until(lambda: owner_of(job) not in ("", str(stalled.pid)))
    stalled.send_signal(signal.SIGCONT)
    wait_for_state(job, "succeeded")
    assert not (job.run_dir / "two-at-once").exists()
    assert [step for _, step in steps(job)] == list(range(60))

    # A killed worker takes its process along, and the other one goes on.
    job = make_job(steps=25)
    send(job)
    wait_until(lambda: len(steps(job)) >= 3)
    killed = both.pop(owner_of(job))
    killed.kill()
    killed.wait()
    wait_until(lambda: not alive(steps(job)[0][0]), patience_s=5)
    wait_for_state(job, "succeeded")
    assert [step for _, step in steps(job)] == list(range(25))
    assert len({pid for pid, _ in steps(job)}) == 2
    assert not (job.run_dir / "two-at-once").exists()
    assert job.attempt == 2 and "The worker was lost while it ran this" in job.log

    # A job whose message was lost is sent again.
    wait_for_state(make_job(steps=2), "succeeded")

    # A worker that ends hands its job back.
    job = make_job(steps=25)
    send(job)
    wait_until(lambda: len(steps(job)) >= 3)
    (ends,) = both.values()
    ends.terminate()
    assert ends.wait(15) == 0
    job.refresh_from_db()
    assert job.state == "queued"
    assert (job.attempt, job.fruitless) == (1, 0)
    assert not alive(steps(job)[0][0])
    workers.worker()
    wait_for_state(job, "succeeded")
    assert [step for _, step in steps(job)] == list(range(25))


def owner_of(job: Job) -> str:
    """The process id of the worker that has it; empty where none has."""
    return "".join(Job.objects.get(pk=job.pk).lease_owner.split(":")[1:2])
