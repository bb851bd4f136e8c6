"""What a worker does with a message, and the scheduler without a broker; no process is started."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from django.contrib.sessions.models import Session
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from realm_core.errors import RealmError
from realm_core.index.tasks import Index
from webapp.artefacts import retention
from webapp.jobs import queue
from webapp.models import DeviceLease, Job, JobKind, JobState, Queue, Scheduler, WebProcess, Worker
from webapp.models.job import ITS_PARTS
from webapp.models.process import host, process_name
from workers import devices, tasks
from workers.beat import InProcessScheduler
from workers.job_run import JobRun, Timing

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql_only]


@pytest.fixture(autouse=True)
def _own_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection to the database is the test's, and not closed."""
    monkeypatch.setattr(tasks, "close_old_connections", lambda: None)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "own", lambda: ("cuda:0", "cuda:1"))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """The time that each message names, and its delay."""
    messages: list[tuple[str, float]] = []

    def send_task(_task: str, words: list[str], **options: Any) -> None:
        messages.append((words[1], options["countdown"]))

    monkeypatch.setattr(queue.producer(), "send_task", send_task)
    return messages


def worker(host: str, **values: Any) -> Worker:
    told = {"slots": 1, "queues": ["train"], "devices": [{"name": "cuda:0"}], **values}
    return Worker.objects.create(name=f"{host}:{Worker.objects.count()}", host=host, **told)


def test_a_training_whose_inputs_are_gone_fails_with_the_sentence(two_gpus: None) -> None:
    job = Job.objects.create(kind="pretrain", queue=Queue.TRAIN, parameters={"model": 404})
    claimed = tasks._claim(str(job.pk), "me", 60)
    assert claimed is not None
    JobRun(claimed, "me", Timing.for_lease(60)).run()
    assert claimed.state == JobState.FAILED and "model" in claimed.error


def test_an_index_of_too_many_shards_is_refused() -> None:
    task = Index(model=Path("m"), corpus=Path("c"), output=Path("o"), shard_rows=100)
    with pytest.raises(RealmError, match="at most 10,000 shards: shard_rows must be at least 101, not 100"):
        task.before(blocks=1_000_001)
    assert [part.parameters["rows"] for part in task.before(blocks=250)] == [100, 100, 50]
    assert not task.before(blocks=100)


# ── A training that finds no device is passed on ────────────────────────────────────────────────────────────────────


def test_a_training_that_waits_for_devices_is_sent_again_at_growing_intervals(
    monkeypatch: pytest.MonkeyPatch,
    sent: list[tuple[str, float]],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    monkeypatch.setattr(devices, "free_elsewhere", lambda: True)
    job, clock = Job.objects.create(kind="ict", queue=Queue.TRAIN), [timezone.now()]
    with django_capture_on_commit_callbacks(execute=True):
        queue.enqueue(job)
    monkeypatch.setattr(timezone, "now", lambda: clock[-1])
    copies = [sent[0][0], "2026-01-01T00:00:00+00:00", ""]
    for _ in range(12):
        clock.append(clock[-1] + timedelta(seconds=sent[-1][1] or 1))
        with django_capture_on_commit_callbacks(execute=True):
            for copy in [*copies, *copies]:
                tasks._pass_on(str(job.pk), copy)
        copies.append(sent[-1][0])
    delays = [delay for _, delay in sent[1:]]
    assert len(delays) == 12 and delays == sorted(delays)
    assert (delays[0], delays[-1]) == (2.0, 60.0)


def test_a_training_is_not_passed_on_to_who_is_busy(
    sent: list[tuple[str, float]], django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    job = Job.objects.create(kind="ict", queue=Queue.TRAIN)

    def passed_on() -> bool:
        with django_capture_on_commit_callbacks(execute=True):
            queue.enqueue(job)
            sent_at = job.sent_at
            assert sent_at is not None
            sent.clear()
            tasks._pass_on(str(job.pk), sent_at.isoformat())
        return len(sent) == 2

    assert not passed_on()  # nobody else is there
    other = worker("elsewhere")
    assert devices.free_elsewhere() and passed_on()
    running = Job.objects.create(kind=JobKind.INGEST, state=JobState.RUNNING, lease_owner=f"{other.name}:ab")
    assert not devices.free_elsewhere()  # its one slot is taken
    running.finish(running.lease_owner, JobState.SUCCEEDED)
    assert devices.free_elsewhere()
    DeviceLease.objects.create(device="elsewhere/cuda:0", job=running)
    assert not devices.free_elsewhere()


# ── Several containers on one machine ───────────────────────────────────────────────────────────────────────────────


def test_containers_of_a_machine_share_its_devices(monkeypatch: pytest.MonkeyPatch, two_gpus: None) -> None:
    monkeypatch.setenv("REALM_HOST", "  box ")
    training = Job.objects.create(kind="ict", queue=Queue.TRAIN)
    assert tasks._claim(str(training.pk), "train container", 60) is not None
    monkeypatch.setattr("socket.gethostname", lambda: "a1b2c3")  # as another container is called
    assert devices.not_leased(devices.own()) == []
    worker(host())
    assert not devices.free_elsewhere()
    monkeypatch.delenv("REALM_HOST")
    assert devices.leased_as("cpu") == "a1b2c3/cpu"


def test_a_lease_names_the_machine_as_the_settings_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "a1b2c3")
    owners = []
    for settled in ("box", "other", "a1b2c3", ""):  # the last as where it is unset
        monkeypatch.setenv("REALM_HOST", settled)
        job = Job.objects.create(kind=JobKind.INDEX)
        run(monkeypatch, job, lambda _job, owner: owners.append(owner))
    pid = os.getpid()
    assert [owner.rpartition(":")[0] for owner in owners] == [
        f"box/a1b2c3:{pid}",
        f"other/a1b2c3:{pid}",
        f"a1b2c3:{pid}",
        f"a1b2c3:{pid}",
    ]


@pytest.mark.parametrize(
    ("queues", "on", "left"), [(["index"], "box", 1), (["index"], "other", 0), (["default"], "box", 0)]
)
def test_a_gpu_is_left_to_whoever_on_the_machine_builds(
    monkeypatch: pytest.MonkeyPatch, two_gpus: None, queues: list[str], on: str, left: int
) -> None:
    monkeypatch.setenv("REALM_HOST", "box")
    monkeypatch.setattr(tasks, "QUEUES", ["train"])
    monkeypatch.setattr(tasks, "_has_builder", lambda *_: True)
    worker(on, queues=queues)
    job = Job.objects.create(kind="pretrain", queue=Queue.TRAIN)
    claimed = tasks._claim(str(job.pk), "me", 60)
    assert claimed is not None and claimed.devices.count() == 2 - left


def test_an_ablation_takes_a_gpu_to_train_and_one_to_build_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "own", lambda: ("cuda:0", "cuda:1", "cuda:2", "cuda:3"))
    first, second, third = (Job.objects.create(kind=JobKind.ABLATE, queue=Queue.TRAIN) for _ in range(3))
    for job, wanted in ((first, ["cuda:0", "cuda:1"]), (second, ["cuda:2", "cuda:3"])):
        claimed = tasks._claim(str(job.pk), "me", 60)
        assert claimed is not None
        assert sorted(devices.device_of(lease.device) for lease in claimed.devices.all()) == wanted
    assert tasks._claim(str(third.pk), "me", 60) is None


# ── The end of a job, and of a worker ───────────────────────────────────────────────────────────────────────────────


def run(monkeypatch: pytest.MonkeyPatch, job: Job, end: Callable[[Job, str], object]) -> None:
    """Receive the job's message; its process ends somehow."""
    monkeypatch.setattr(tasks, "JobRun", lambda job, owner, _timing: SimpleNamespace(run=lambda: end(job, owner)))
    tasks.run_job(str(job.pk))
    job.refresh_from_db()


def succeed(job: Job, owner: str) -> None:
    assert job.finish(owner, JobState.SUCCEEDED)


@pytest.mark.parametrize(("end", "builder"), [(succeed, JobState.STOPPED), (Job.give_back, JobState.QUEUED)])
def test_what_waits_to_run_beside_a_job_ends_with_it(
    monkeypatch: pytest.MonkeyPatch, end: Callable[[Job, str], object], builder: str
) -> None:
    job = Job.objects.create(kind="pretrain")
    part = Job.objects.create(kind=JobKind.REFRESH, parent=job)
    run(monkeypatch, job, end)
    part.refresh_from_db()
    assert part.state == builder


def test_the_last_part_settles_its_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Job.objects.create(kind=JobKind.INDEX, state=JobState.RUNNING, lease_owner=ITS_PARTS)
    run(monkeypatch, Job.objects.create(kind=JobKind.INDEX_SHARD, parent=whole), succeed)
    whole.refresh_from_db()
    assert whole.state == JobState.QUEUED


def test_a_device_that_is_free_again_is_told_to_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Job.objects.create(kind="ict", queue=Queue.TRAIN) for _ in range(2))
    assert second.mark_sent(timezone.now())  # and nobody could take it
    before = second.sent_at
    run(monkeypatch, first, succeed)
    second.refresh_from_db()
    assert before is not None and second.sent_at is not None and second.sent_at > before


def test_a_worker_that_ends_takes_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    ending = threading.Event()
    ending.set()
    monkeypatch.setattr(tasks, "shutting_down", ending)
    job = Job.objects.create(kind="ict")
    run(monkeypatch, job, succeed)
    assert (job.state, job.fruitless) == (JobState.QUEUED, 0)


def test_a_worker_that_begins_sends_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_reporter", SimpleNamespace(start=lambda: None))
    now = timezone.now()
    waiting, just_sent = (Job.objects.create(kind="ict", queued_at=now - timedelta(60)) for _ in range(2))
    assert waiting.mark_sent(now - timedelta(seconds=20)) and just_sent.mark_sent(now)
    tasks.begin()
    for job in (waiting, just_sent):
        job.refresh_from_db()
    assert waiting.sent_at is not None and waiting.sent_at > now and just_sent.sent_at == now


# ── The scheduler ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(30)
def test_the_scheduler_does_its_tasks_without_a_broker() -> None:
    app = Celery(broker="redis+socket:///nowhere/valkey.sock", set_as_current=False)
    app.conf.update(broker_connection_max_retries=1, beat_schedule={"look": {"task": "look", "schedule": 0.001}})
    done = []

    @app.task(name="look")  # type: ignore[untyped-decorator]
    def look() -> None:
        done.append(1)

    app.finalize()
    scheduler = InProcessScheduler(app=app)
    while not done:
        scheduler.tick()


def test_a_lease_written_by_a_clock_that_was_ahead_ends_all_the_same() -> None:
    now = timezone.now()
    held = [
        Job.objects.create(kind=JobKind.INDEX, state=JobState.RUNNING, lease_owner="gone", lease_expires_at=now + ahead)
        for ahead in (timedelta(days=400), timedelta(seconds=30))
    ]
    tasks._doubt_long_leases()
    leases = [Job.objects.get(pk=job.pk).lease_expires_at for job in held]
    assert now + timedelta(seconds=59) < leases[0] < now + timedelta(seconds=90)
    assert leases[1] == now + timedelta(seconds=30)  # as it was


def test_the_scheduler_brings_back_what_was_lost_and_ends_what_is_over() -> None:
    now = timezone.now()
    lost = Job.objects.create(kind="ict")
    assert Job.claim(lost.pk, "gone", -1) is not None
    lost.run_dir.mkdir(parents=True)
    rested = Job.objects.create(kind="ict", state=JobState.INTERRUPTED, finished_at=now - timedelta(days=1))
    silent = Job.objects.create(kind="ict")
    orphan = Job.objects.create(
        kind=JobKind.INDEX_SHARD, parent=Job.objects.create(kind=JobKind.INDEX, state=JobState.FAILED)
    )
    worker("elsewhere", seen_at=now - timedelta(hours=2))
    for kind in (Scheduler, WebProcess):
        kind.objects.create(name="gone:1", host="gone", seen_at=now - timedelta(hours=2))
    tasks.tidy()
    for job in (lost, rested, silent):
        job.refresh_from_db()
        assert job.state == JobState.QUEUED and job.sent_at is not None
    assert "The worker was lost while it ran this" in (lost.run_dir / "log.txt").read_text()
    orphan.refresh_from_db()
    assert orphan.state == JobState.STOPPED and not Worker.objects.exists() and not WebProcess.objects.exists()
    own = Scheduler.objects.get()
    assert own.name == process_name() and own.is_alive
    Scheduler.objects.update(seen_at=now - timedelta(minutes=1))
    tasks.tidy()
    own.refresh_from_db()
    assert own.is_alive


def test_a_scheduler_that_cannot_tidy_up_gives_no_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(tasks.parts, "repair", fail)
    with pytest.raises(RuntimeError):
        tasks.tidy()
    assert not Scheduler.objects.exists()


def test_the_scheduler_begins_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def run_due() -> Iterator[Job]:
        asked.append(1)
        yield Job(kind=JobKind.INDEX)

    monkeypatch.setattr(tasks.scheduling, "run_due", run_due)
    tasks.run_schedules()
    assert asked == [1]


def test_old_work_goes_if_the_rule_is_switched_on_and_no_backup_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def remove(*, by: str) -> list[Any]:
        asked.append(by)
        raise RealmError("A backup is being written.")

    monkeypatch.setattr(tasks.retention, "remove", remove)
    tasks.retain()
    assert asked == []
    retention.change_rule(enabled=True, generations=3, run_days=30, answer_days=0, by=None)
    tasks.retain()
    assert asked == ["retention"]


def test_ended_sessions_go() -> None:
    Session.objects.create(session_key="ended", session_data="", expire_date=timezone.now() - timedelta(seconds=1))
    tasks.retain()
    assert not Session.objects.exists()


def test_a_removal_that_fails_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for module, name in (
        (retention, "finish"),
        (tasks.removing, "remove_superseded"),
        (tasks.sweeping, "sweep"),
        (tasks.restoring, "forget_originals"),
        (retention, "remove"),
    ):

        def fail(name: str = name, **_by: str) -> list[Any]:
            asked.append(name)
            raise RealmError("The store does not answer.")

        monkeypatch.setattr(module, name, fail)
    retention.change_rule(enabled=True, generations=3, run_days=30, answer_days=0, by=None)
    tasks.retain()
    assert asked == ["finish", "remove_superseded", "sweep", "forget_originals", "remove"]
