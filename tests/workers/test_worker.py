"""A worker says what it is: its queues, slots and devices; and a process is kept to its devices."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from tests import forked
from tests.core.training.towns import make_towns
from tests.waiting import wait_until
from tests.workers.conftest import Workers, make_job, send, steps, wait_for_state
from tests.workers.work import record_work
from webapp.jobs import service as jobs
from webapp.jobs.queue import producer
from webapp.models import FETCH_QUEUE, DeviceLease, Job, JobKind, JobState, Worker
from workers import devices, reporting
from workers.services import environment_for

pytestmark = pytest.mark.postgresql_only

SMI = "0, 1024, 81559, 37\n1, 0, 81559, [N/A]\n"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """REALM_DEVICES and nvidia-smi as the test says."""
    devices.own.cache_clear()
    monkeypatch.setattr(devices, "_gpus", lambda: devices.read_smi(SMI))
    yield monkeypatch
    devices.own.cache_clear()


def test_a_worker_reports_itself_and_is_gone_when_it_ends(workers: Workers) -> None:
    process = workers.worker(queues="index,default", slots="2")
    wait_until(Worker.objects.exists)
    row = Worker.objects.get()
    assert row.name.endswith(f":{process.pid}") and row.is_alive
    assert (row.queues, row.slots) == (["index", "default"], 2)
    (cpu,) = row.devices
    assert (cpu["name"], cpu["kind"]) == ("cpu", "cpu")
    assert 0 < cpu["memory_used"] < cpu["memory_total"] and 0 <= cpu["utilisation"] <= 1
    process.terminate()
    process.wait(15)
    assert not Worker.objects.exists()


def test_a_worker_of_addresses_reports_itself_without_devices(workers: Workers) -> None:
    workers.environment |= {"WORKER_QUEUES": "default", "WORKER_SLOTS": "1"}  # of the one that runs jobs
    workers.fetcher()
    wait_until(Worker.objects.exists)
    row = Worker.objects.get()
    assert (row.queues, row.slots, row.devices) == ([FETCH_QUEUE], 8, [])


def test_a_worker_takes_jobs_of_its_queues_alone(workers: Workers) -> None:
    other, own = make_job(queue="train", steps=1), make_job(queue="index", steps=1)
    workers.worker(queues="index,default", log="json")
    for job in (other, own):
        send(job)
    wait_for_state(own, "succeeded")
    assert Job.objects.get(pk=other.pk).state == "queued" and not steps(other)
    # What it logs of a job names it.
    wait_until(lambda: f"Job {own.pk}: succeeded" in workers.log())
    lines = [json.loads(line) for line in workers.log().splitlines() if line.startswith("{")]
    told = {line["message"]: line.get("job_id") for line in lines if line["logger"] == "workers.tasks"}
    assert told[f"Job {own.pk}: succeeded"] == str(own.pk) and set(told.values()) <= {str(own.pk), None}


def test_no_password_stands_in_the_log(broker_data: Path, tmp_path: Path) -> None:
    """Of workers and a scheduler that look in vain for their broker and their database."""
    reachable = environment_for(broker_data, {})[0]["BROKER_URL"]
    running = Workers(
        {
            **os.environ,
            "DATABASE_URL": "postgres://keeper:pass%40word-1@127.0.0.1:1/none",
            "BROKER_URL": "redis://:pass%40word-2@127.0.0.1:1/0",
        },
        tmp_path,
    )
    try:
        running.worker()
        running.worker(broker=reachable, log="json")
        running.scheduler()
        troubles = ("Cannot connect to redis://", "This worker could not report itself", "OperationalError")
        logs = [tmp_path / f"{number}.log" for number in range(3)]
        for path, trouble in zip(logs, troubles, strict=True):
            wait_until(lambda path=path, trouble=trouble: trouble in path.read_text())
    finally:
        for process in running.processes:
            process.terminate()
            process.wait(60)
    assert "Connection refused" in running.log()
    assert "pass%40word" not in running.log() and "pass@word" not in running.log()
    assert "RuntimeError" not in running.log()  # each ends as it should, though it never began


def test_a_worker_without_a_free_slot_leaves_messages_to_others(workers: Workers) -> None:
    busy = make_job(steps=1000)
    workers.worker(slots="1")  # which sends what waits when it begins
    wait_until(lambda: steps(busy))
    send(make_job(steps=1))
    done = len(steps(busy))
    wait_until(lambda: len(steps(busy)) >= done + 6)  # as long as a worker could take to fetch it ahead
    with producer().connection_for_read() as connection:
        assert connection.default_channel.client.llen("default") == 1


@pytest.mark.django_db
def test_rows_of_workers_that_were_lost_vanish() -> None:
    now = timezone.now()
    for name, minutes in (("lost", 61), ("silent", 30), ("alive", 0), ("of a clock that was ahead", -30)):
        Worker.objects.create(name=name, host="h", slots=1, seen_at=now - timedelta(minutes=minutes))
    Worker.forget_lost()
    assert [row.name for row in Worker.objects.order_by("seen_at") if row.is_alive] == ["alive"]
    assert not Worker.objects.filter(name="lost").exists() and Worker.objects.count() == 3


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        (
            "WORKER_QUEUES",
            "default,fast",
            "WORKER_QUEUES must be some of default, index, train, or fetch alone, not 'default,fast'",
        ),
        ("WORKER_QUEUES", "fetch,default", "or fetch alone, not 'fetch,default'"),
        ("WORKER_SLOTS", "0", "WORKER_SLOTS must be at least 1"),
        ("REALM_DEVICES", "cuda:0,gpu1", "REALM_DEVICES must be cpu or cuda:N, with commas between, not 'gpu1'"),
    ],
)
def test_what_a_worker_cannot_be_is_said(variable: str, value: str, says: str) -> None:
    status, said = forked.finished([sys.executable, "-m", "workers.app"], os.environ | {variable: value})
    assert status == 1 and says in said


# ── Devices ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_devices_are_found_or_named(named: pytest.MonkeyPatch) -> None:
    assert devices.own() == ("cuda:0", "cuda:1")
    devices.own.cache_clear()
    named.setenv("REALM_DEVICES", "cuda:1, cpu, cuda:1")
    assert devices.own() == ("cuda:1", "cpu")
    assert [device["name"] for device in devices.report()] == ["cuda:1", "cpu"]
    devices.own.cache_clear()
    named.setenv("REALM_DEVICES", "gpu0")
    with pytest.raises(ImproperlyConfigured, match="REALM_DEVICES must be cpu or cuda:N, with commas between"):
        devices.own()


def test_what_nvidia_smi_says_is_read(named: pytest.MonkeyPatch) -> None:
    assert devices.report() == [
        {"name": "cuda:0", "kind": "cuda", "memory_used": 1 << 30, "memory_total": 81559 << 20, "utilisation": 0.37},
        {"name": "cuda:1", "kind": "cuda", "memory_used": 0, "memory_total": 81559 << 20, "utilisation": None},
    ]


def test_the_processor_in_use_is_its_use_and_not_its_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices.psutil, "cpu_percent", lambda interval: 37.5)
    monkeypatch.setattr(os, "getloadavg", lambda: (4096.0, 4096.0, 4096.0))
    monkeypatch.setattr(devices, "own", lambda: ("cpu",))
    assert [device["utilisation"] for device in devices.report()] == [0.375]


def test_other_lines_of_nvidia_smi_are_ignored() -> None:
    assert list(devices.read_smi(f"Warning: a GPU was lost\n1,2\n{SMI}")) == [0, 1]


def test_a_worker_goes_on_reporting_after_an_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "close_old_connections", lambda: None)  # they are other tests'

    def broken() -> None:
        raise ValueError("not enough values to unpack")

    reporting.Reporter._safely(broken)
    assert "could not report itself" in caplog.text and "not enough values" in caplog.text


def test_a_process_is_kept_to_its_devices() -> None:
    assert devices.environment(["cuda:1", "cuda:3"])["CUDA_VISIBLE_DEVICES"] == "1,3"
    assert devices.environment(["cpu"])["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.django_db
def test_a_training_takes_what_is_free_and_leaves_its_builder_a_gpu(named: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from workers import tasks

    named.setenv("REALM_DEVICES", "cuda:0,cuda:1,cuda:2")
    work = record_work(make_towns(tmp_path))
    start = {"model": work.model.pk, "corpus": work.corpus.pk}
    pretrain = {**start, "index": work.index.pk, "spans": work.spans.pk}

    def taken(kind: str, parameters: dict[str, object]) -> list[str]:
        job = jobs.start(kind, parameters, by=None)
        claimed = tasks._claim(str(job.pk), "me", 60)
        held = [] if claimed is None else [lease.device.rpartition("/")[2] for lease in claimed.devices.all()]
        if claimed is not None:
            claimed.finish("me", JobState.STOPPED)
        return held

    assert taken("ict", start) == ["cuda:0", "cuda:1", "cuda:2"]
    assert taken("pretrain", pretrain) == ["cuda:0", "cuda:1"]
    assert taken("pretrain", {**pretrain, "refresh": "never"}) == ["cuda:0", "cuda:1", "cuda:2"]
    other = Job.objects.create(kind="ict", queue="train", state=JobState.RUNNING)
    DeviceLease.objects.create(device=devices.leased_as("cuda:0"), job=other)
    assert taken("ict", {**start, "seed": 2}) == ["cuda:1", "cuda:2"]
    ablation = {**start, "spans": work.spans.pk, "questions": [work.learn.pk], "dev": [work.measure.pk]}
    ablation["rows"] = ["realm"]
    assert taken(JobKind.ABLATE, ablation) == ["cuda:1", "cuda:2"]  # one for the builder
    for number in (1, 2):
        DeviceLease.objects.create(device=devices.leased_as(f"cuda:{number}"), job=other)
    assert taken("mlm", start) == []
    assert Job.objects.get(kind="mlm").state == "queued"
    assert devices.not_leased(devices.own()) == []
