"""Handing a job over to the workers: a message says which job, and nothing else of it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.db import OperationalError
from pytest_django import DjangoCaptureOnCommitCallbacks

from webapp.jobs import queue
from webapp.models import Job, JobKind, JobState, Queue
from webapp.models import job as job_module

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


class Broker:
    """Takes so many messages, then refuses."""

    def __init__(self, takes: int = 100) -> None:
        self.takes = takes
        self.tried: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def send_task(self, *args: Any, **options: Any) -> None:
        self.tried.append((args, options))
        if len(self.tried) > self.takes:
            raise ConnectionRefusedError("no broker")


def given(monkeypatch: pytest.MonkeyPatch, broker: Broker) -> Broker:
    monkeypatch.setattr(queue.producer(), "send_task", broker.send_task)
    return broker


def test_the_message_is_an_id_and_a_time(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    broker, job = given(monkeypatch, Broker()), Job.objects.create(kind=JobKind.INDEX)
    with django_capture_on_commit_callbacks(execute=True):
        queue.enqueue(job)
        assert broker.tried == []  # nobody else sees the row yet
    job.refresh_from_db()
    assert job.sent_at is not None
    message = [str(job.pk), job.sent_at.isoformat()]
    assert broker.tried == [(("workers.run_job", message), {"queue": "default", "retry": False, "countdown": None})]
    assert json.loads(json.dumps(message)) == message
    conf = queue.producer().conf
    assert (conf.task_serializer, conf.accept_content, conf.result_backend) == ("json", ["json"], None)


def test_what_does_not_wait_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    broker = given(monkeypatch, Broker())
    with django_capture_on_commit_callbacks(execute=True):
        for state in set(JobState) - {JobState.QUEUED}:
            queue.enqueue(Job.objects.create(kind=JobKind.INDEX, state=state))
    assert broker.tried == []


def test_without_a_broker_jobs_wait_and_one_asks_it_once(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    monkeypatch.setattr(job_module, "_ROWS_AT_ONCE", 2)
    broker = given(monkeypatch, Broker(takes=1))
    jobs = [Job.objects.create(kind=JobKind.INDEX) for _ in range(4)]
    with django_capture_on_commit_callbacks(execute=True):
        queue.enqueue(*jobs)
    assert len(broker.tried) == 2 and "stay queued (3)" in caplog.text
    assert [job.pk for job in Job.waiting(30)] == [job.pk for job in jobs[1:]]  # to be sent at once


def test_who_starts_a_job_does_not_wait_for_a_broker_that_is_away(
    settings: Any, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    settings.BROKER_URL = "redis+socket:///nowhere/valkey.sock"
    queue.producer.cache_clear()
    began = time.monotonic()
    try:
        with django_capture_on_commit_callbacks(execute=True):
            queue.enqueue(Job.objects.create(kind=JobKind.INDEX))
    finally:
        queue.producer.cache_clear()
    assert time.monotonic() - began < 5  # kombu's own attempts take six seconds
    assert Job.objects.get().sent_at is None


def test_each_goes_to_the_workers_of_its_queue(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    broker = given(monkeypatch, Broker())
    with django_capture_on_commit_callbacks(execute=True):
        queue.enqueue(*(Job.objects.create(kind=JobKind.INDEX, queue=name) for name in Queue))
    assert [options["queue"] for _, options in broker.tried] == list(Queue)


def test_nobody_fails_because_broker_and_database_are_both_away(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    def away(*_about: Any) -> None:
        raise OperationalError("the database does not answer")

    broker = given(monkeypatch, Broker(takes=0))
    monkeypatch.setattr(Job, "unmark_sent", away)
    with django_capture_on_commit_callbacks(execute=True):
        queue.enqueue(Job.objects.create(kind=JobKind.INDEX))
    assert len(broker.tried) == 1
