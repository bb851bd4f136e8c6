"""Jobs in parts under real workers: shards that several workers take, and a builder beside a training."""

from __future__ import annotations

import os
import signal

import pytest

from tests.waiting import alive, wait_until
from tests.workers.conftest import Workers, make_job, send, steps, wait_for_state
from webapp.jobs import service as jobs
from webapp.models import DeviceLease, Job, JobKind
from webapp.models.job import ITS_PARTS

pytestmark = pytest.mark.postgresql_only


def parts_of(job: Job) -> list[Job]:
    return list(job.parts.order_by("created_at"))


def processes(job: Job) -> set[int]:
    return {pid for pid, _ in steps(job)}


# ── Shards ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_parts_are_shared_by_workers_and_the_whole_comes_last(workers: Workers) -> None:
    job = make_job(steps=2, parts=6, part_step_s=0.15)
    first, second = workers.worker(slots="2"), workers.worker(slots="2")  # neither can take them all at once
    workers.scheduler()
    workers.ready()
    send(job)
    wait_until(lambda: Job.objects.get(pk=job.pk).lease_owner == ITS_PARTS)
    wait_until(lambda: 0 < Job.objects.get(pk=job.pk).progress.get("done", 0) < 30)
    waiting = Job.objects.get(pk=job.pk)
    assert (waiting.state, waiting.progress["total"], steps(job)) == ("running", 30, [])
    owners: set[str] = set()

    def all_done() -> bool:
        owners.update(part.lease_owner.split(":")[1] for part in parts_of(job) if part.lease_owner)
        return Job.objects.get(pk=job.pk).state == "succeeded"

    wait_until(all_done)
    job.refresh_from_db()
    assert owners == {str(first.pid), str(second.pid)}
    assert [part.state for part in parts_of(job)] == ["succeeded"] * 6
    assert all([step for _, step in steps(part)] == list(range(5)) for part in parts_of(job))
    assert (job.result, job.attempt, len(steps(job))) == ({"recorded": 2}, 1, 2)


@pytest.mark.nightly  # stopping stops all parts every day
def test_a_part_that_fails_fails_the_whole_and_stops_the_others(workers: Workers) -> None:
    job = make_job(parts=4, part_step_s=0.3, part_steps=100)
    workers.worker()
    send(job)
    wait_until(lambda: any(steps(part) for part in parts_of(job)))
    broken = next(part for part in parts_of(job) if steps(part))
    (broken.run_dir / "fail").write_text("The disk is full.")
    wait_for_state(job, "failed")
    assert job.error.endswith(f"({broken.pk}): The disk is full.")
    assert {part.state for part in parts_of(job)} == {"failed", "stopped"}

    (broken.run_dir / "fail").unlink()
    Job.objects.filter(pk=job.pk).update(parameters={"steps": 1, "parts": 4})
    job.refresh_from_db()
    assert jobs.resume(job, by=None)
    wait_for_state(job, "succeeded")
    assert len(parts_of(job)) == 4  # those that were there


def test_stopping_stops_all_parts_and_resuming_does_what_is_missing(workers: Workers) -> None:
    job = make_job(steps=1, parts=3, part_step_s=0.2, part_steps=20)
    workers.worker()
    send(job)
    wait_until(lambda: all(steps(part) for part in parts_of(job)) and parts_of(job))
    job.refresh_from_db()
    assert jobs.stop(job, by=None)
    wait_for_state(job, "stopped")
    assert [part.state for part in parts_of(job)] == ["stopped"] * 3
    assert not any(alive(pid) for part in parts_of(job) for pid in processes(part))
    assert jobs.resume(job, by=None)
    wait_for_state(job, "succeeded")
    assert all([step for _, step in steps(part)] == list(range(20)) for part in parts_of(job))


def test_a_whole_that_waits_in_the_queue_stops_at_once(workers: Workers) -> None:
    job = make_job(parts=2)
    assert jobs.stop(job, by=None)
    assert job.state == "stopped"


def test_a_worker_that_dies_with_parts_loses_none_of_them(workers: Workers) -> None:
    job = make_job(steps=1, parts=4, part_step_s=0.2, part_steps=10)
    doomed = workers.worker()
    workers.scheduler()
    send(job)
    wait_until(lambda: sum(bool(steps(part)) for part in parts_of(job)) >= 2)
    doomed.kill()
    doomed.wait()
    workers.worker()
    wait_for_state(job, "succeeded")
    assert all([step for _, step in steps(part)] == list(range(10)) for part in parts_of(job))
    assert not any((part.run_dir / "two-at-once").exists() for part in parts_of(job))


def test_the_scheduler_settles_what_a_dead_worker_could_not(workers: Workers) -> None:
    job = make_job(steps=1, parts=2)
    claimed = Job.claim(job.pk, "gone", 60)
    assert claimed is not None and claimed.wait_for_parts("gone")
    for number in range(2):
        Job.objects.create(
            kind=JobKind.INDEX_SHARD, parent=job, state="succeeded", parameters={"shard": number, "rows": 5}
        )
    workers.worker()
    workers.scheduler()
    wait_for_state(job, "succeeded")


# ── A builder beside a training ─────────────────────────────────────────────────────────────────────────────────────


def test_a_builder_runs_as_long_as_its_training(workers: Workers) -> None:
    job = make_job(queue="train", steps=10, step_s=0.2, builder=1)
    workers.worker()
    send(job)
    wait_until(lambda: parts_of(job) and steps(parts_of(job)[0]))
    (part,) = parts_of(job)
    assert (part.kind, part.queue, part.state) == (JobKind.REFRESH, "index", "running")
    wait_for_state(job, "succeeded")
    wait_for_state(part, "succeeded")
    assert not any(map(alive, processes(part)))


@pytest.mark.nightly  # a worker with parts dies every day
def test_builder_and_training_survive_each_other_and_either_worker(workers: Workers) -> None:
    job = make_job(queue="train", steps=100_000, step_s=0.2, builder=1)
    trainer = workers.worker(queues="train")
    building = workers.worker(queues="index")
    workers.scheduler()
    send(job)
    wait_until(lambda: parts_of(job) and steps(parts_of(job)[0]) and steps(job))
    (part,) = parts_of(job)

    building.kill()  # the training does not notice
    done = len(steps(job))
    wait_until(lambda: len(steps(job)) > done + 5)
    assert len(processes(job)) == 1
    workers.worker(queues="index")
    wait_until(lambda: len(processes(part)) == 2)

    trainer.kill()  # the builder does not
    wait_until(lambda: Job.objects.get(pk=job.pk).state == "queued")
    assert not DeviceLease.held()
    done = len(steps(part))
    wait_until(lambda: len(steps(part)) > done + 3)
    workers.worker(queues="train")
    wait_until(lambda: len(processes(job)) == 2)

    job.refresh_from_db()
    assert jobs.stop(job, by=None)
    wait_for_state(job, "stopped")
    wait_for_state(part, "stopped")
    assert jobs.resume(job, by=None)
    wait_until(lambda: len(processes(job)) == len(processes(part)) == 3)  # both go on

    wait_until(lambda: Job.objects.get(pk=part.pk).state == Job.objects.get(pk=job.pk).state == "running")
    job.refresh_from_db()
    assert jobs.stop(job, by=None)
    wait_for_state(job, "stopped")
    done = len(steps(job))
    Job.objects.filter(pk=job.pk).update(parameters={"steps": done, "builder": 1})
    job.refresh_from_db()
    assert jobs.resume(job, by=None)
    wait_for_state(job, "succeeded")
    wait_for_state(part, "succeeded", "stopped")
    assert [step for _, step in steps(job)] == list(range(done))
    assert not (job.run_dir / "two-at-once").exists() and not (part.run_dir / "two-at-once").exists()


# ── Devices ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_device_runs_one_training(workers: Workers) -> None:
    first, second = (make_job(queue="train", steps=6, step_s=0.2) for _ in range(2))
    workers.worker()
    workers.worker()
    for job in (first, second):
        send(job)
    wait_until(lambda: steps(first) or steps(second))
    assert DeviceLease.objects.count() == 1
    running = first if steps(first) else second
    wait_until(lambda: len(steps(running)) >= 4)
    assert {Job.objects.get(pk=job.pk).state for job in (first, second)} == {"running", "queued"}
    for job in (first, second):
        wait_for_state(job, "succeeded")
    earlier, later = sorted((first, second), key=lambda job: job.started_at)  # type: ignore[arg-type, return-value]
    assert earlier.finished_at <= later.started_at  # type: ignore[operator]
    assert DeviceLease.objects.count() == 0


@pytest.mark.nightly  # above, one device; and processes that are killed
def test_two_devices_two_trainings_and_none_is_lost_with_its_process(workers: Workers) -> None:
    jobs_ = [make_job(queue="train", steps=60, step_s=0.2) for _ in range(2)]
    workers.worker(devices="cuda:0")
    workers.worker(devices="cuda:1")
    workers.ready()
    for job in jobs_:
        send(job)
    wait_until(lambda: all(map(steps, jobs_)))
    assert {lease.device.rpartition("/")[2] for lease in DeviceLease.objects.all()} == {"cuda:0", "cuda:1"}
    seen = {(job.run_dir / "devices.txt").read_text() for job in jobs_}
    assert seen == {"0", "1"}
    os.kill(steps(jobs_[0])[0][0], signal.SIGKILL)
    for job in jobs_:
        wait_for_state(job, "succeeded")
    assert DeviceLease.objects.count() == 0
