"""Jobs under real workers: they succeed, fail, stop, and survive the death of everything involved."""

from __future__ import annotations

import math
import os
import signal

from django.utils import timezone

from tests.waiting import alive, wait_until
from tests.workers.conftest import Workers, make_job, send, steps, wait_for_state
from webapp.models import Job
from webapp.models.job import MAX_ATTEMPTS


def test_runs_to_success(workers: Workers) -> None:
    job = make_job(steps=5)
    workers.worker()
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


def test_the_same_message_twice_runs_it_once(workers: Workers) -> None:
    job = make_job(steps=3)
    workers.worker()
    for _ in range(3):
        send(job)
    wait_for_state(job, "succeeded")
    assert [step for _, step in steps(job)] == [0, 1, 2]
    assert job.attempt == 1


def test_fails_with_the_sentence_of_the_process(workers: Workers) -> None:
    job = make_job(fail="The corpus is not there.")
    workers.worker()
    send(job)
    wait_for_state(job, "failed")
    assert job.error == "The corpus is not there."


def test_an_unknown_kind_fails_with_a_sentence(workers: Workers) -> None:
    job = Job.objects.create(kind="alchemy")
    workers.worker()
    send(job)
    wait_for_state(job, "failed")
    assert "alchemy" in job.error


def test_stops_when_asked(workers: Workers) -> None:
    job = make_job(steps=1000)
    workers.worker()
    send(job)
    wait_until(lambda: steps(job))
    job.refresh_from_db()
    assert job.request_stop()
    wait_for_state(job, "stopped")
    assert not alive(steps(job)[0][0])


def test_stops_a_process_that_does_not_listen(workers: Workers) -> None:
    job = make_job(steps=1000, deaf=1, helper=1)
    workers.worker()
    send(job)
    wait_until(lambda: steps(job))
    job.refresh_from_db()
    assert job.request_stop()
    wait_for_state(job, "stopped")
    assert not alive(steps(job)[0][0])
    wait_until(lambda: not alive(int((job.run_dir / "helper").read_text())))


def test_a_killed_process_goes_on(workers: Workers) -> None:
    job = make_job(steps=15)
    workers.worker()
    send(job)
    wait_until(lambda: len(steps(job)) >= 3)
    os.kill(steps(job)[0][0], signal.SIGKILL)
    wait_for_state(job, "succeeded")
    assert [step for _, step in steps(job)] == list(range(15))
    assert len({pid for pid, _ in steps(job)}) == 2
    assert [row.step for row in job.metrics.order_by("step")] == list(range(15))
    assert (job.attempt, job.fruitless) == (2, 1)
    assert "Its process ended by SIGKILL in attempt 1; it goes on from there." in job.log


def test_a_process_that_is_killed_every_time_is_given_up(workers: Workers) -> None:
    job = make_job(steps=1000, die=2)
    workers.worker()
    send(job)
    wait_for_state(job, "interrupted")
    assert "SIGKILL" in job.error
    assert [step for _, step in steps(job)] == [0, 1]
    # One more attempt where the first one's two steps were seen before it died.
    assert (job.fruitless, job.interruptions) == (MAX_ATTEMPTS, 1) and job.attempt >= MAX_ATTEMPTS


def test_a_killed_worker_takes_its_process_along_and_another_goes_on(workers: Workers) -> None:
    job = make_job(steps=25)
    first = workers.worker()
    workers.scheduler()
    send(job)
    wait_until(lambda: len(steps(job)) >= 3)
    first.kill()
    first.wait()
    wait_until(lambda: not alive(steps(job)[0][0]), patience_s=5)
    workers.worker()
    wait_for_state(job, "succeeded")
    assert [step for _, step in steps(job)] == list(range(25))
    assert len({pid for pid, _ in steps(job)}) == 2
    assert not (job.run_dir / "two-at-once").exists()
    assert job.attempt == 2 and "The worker was lost while it ran this" in job.log


def test_a_stalled_worker_never_makes_two_processes(workers: Workers) -> None:
    job = make_job(steps=60)
    stalled = workers.worker()
    send(job)
    wait_until(lambda: len(steps(job)) >= 3)
    stalled.send_signal(signal.SIGSTOP)
    workers.worker()
    workers.scheduler()
    # The lease runs out; the process of the stalled worker still works, and the other worker must not start one.
    wait_until(lambda: Job.objects.get(pk=job.pk).lease_owner.split(":")[1:2] not in ([], [str(stalled.pid)]))
    stalled.send_signal(signal.SIGCONT)
    wait_for_state(job, "succeeded")
    assert not (job.run_dir / "two-at-once").exists()
    assert [step for _, step in steps(job)] == list(range(60))


def test_a_worker_that_ends_hands_its_job_back(workers: Workers) -> None:
    job = make_job(steps=25)
    first = workers.worker()
    send(job)
    wait_until(lambda: len(steps(job)) >= 3)
    first.terminate()
    assert first.wait(15) == 0
    job.refresh_from_db()
    assert job.state == "queued"
    assert (job.attempt, job.fruitless) == (1, 0)
    assert not alive(steps(job)[0][0])
    workers.worker()
    wait_for_state(job, "succeeded")
    assert [step for _, step in steps(job)] == list(range(25))


def test_a_job_whose_message_was_lost_is_sent_again(workers: Workers) -> None:
    job = make_job(steps=2)
    workers.worker()
    workers.scheduler()
    wait_for_state(job, "succeeded")
