"""What a worker does with a message, and the scheduler without a broker; no process is started."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from realm_core.errors import RealmError
from webapp import queue
from webapp.kinds import Given
from webapp.kinds.settings import IndexSettings
from webapp.models import DeviceLease, Job, JobKind, JobState, Queue, Worker
from workers import devices, tasks
from workers.beat import Here
from workers.job_run import JobRun, Timing
from workers.kinds import index

pytestmark = pytest.mark.django_db


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
    job = Job.objects.create(kind=JobKind.PRETRAIN, queue=Queue.TRAIN, parameters={"model": 404})
    claimed = tasks._claim(str(job.pk), "me", 60)
    assert claimed is not None
    JobRun(claimed, "me", Timing.for_lease(60)).run()
    assert claimed.state == JobState.FAILED and "model" in claimed.error


def test_an_index_of_too_many_shards_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given({"corpus": SimpleNamespace(blocks=1_000_001)}, {IndexSettings: IndexSettings(shard_rows=100)})
    monkeypatch.setattr(index, "given", lambda _job: given)
    with pytest.raises(RealmError, match="at most 10,000 shards: shard_rows must be at least 101, not 100"):
        index.shards(Job(kind=JobKind.INDEX))


# ── A training that finds no device is passed on ────────────────────────────────────────────────────────────────────


def test_one_message_of_a_training_goes_round_later_and_later(
    monkeypatch: pytest.MonkeyPatch,
    sent: list[tuple[str, float]],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    monkeypatch.setattr(devices, "free_elsewhere", lambda: True)
    job, clock = Job.objects.create(kind=JobKind.ICT, queue=Queue.TRAIN), [timezone.now()]
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


def test_a_training_is_not_passed_on_to_who_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    other = worker("elsewhere")
    assert devices.free_elsewhere()
    running = Job.objects.create(kind=JobKind.INGEST, state=JobState.RUNNING, lease_owner=f"{other.name}:ab")
    assert not devices.free_elsewhere()  # its one slot is taken
    running.finish(running.lease_owner, JobState.SUCCEEDED)
    assert devices.free_elsewhere()
    DeviceLease.objects.create(device="elsewhere/cuda:0", job=running)
    assert not devices.free_elsewhere()


# ── Several containers on one machine ───────────────────────────────────────────────────────────────────────────────


def test_containers_of_a_machine_share_its_devices(monkeypatch: pytest.MonkeyPatch, two_gpus: None) -> None:
    monkeypatch.setenv("REALM_HOST", "  box ")
    training = Job.objects.create(kind=JobKind.ICT, queue=Queue.TRAIN)
    assert tasks._claim(str(training.pk), "train container", 60) is not None
    monkeypatch.setattr("socket.gethostname", lambda: "a1b2c3")  # as another container is called
    assert devices.not_leased(devices.own()) == []
    worker(devices.host())
    assert not devices.free_elsewhere()
    monkeypatch.delenv("REALM_HOST")
    assert devices.leased_as("cpu") == "a1b2c3/cpu"


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
    job = Job.objects.create(kind=JobKind.PRETRAIN, queue=Queue.TRAIN)
    claimed = tasks._claim(str(job.pk), "me", 60)
    assert claimed is not None and claimed.devices.count() == 2 - left


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
    scheduler = Here(app=app)
    while not done:
        scheduler.tick()
