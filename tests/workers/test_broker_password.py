"""A broker that wants a password: who has none gets nothing, and neither password stands in a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.contrib.auth.models import AnonymousUser
from django.core.cache.backends.redis import RedisCache
from django.test import RequestFactory
from pytest_django import DjangoCaptureOnCommitCallbacks

from tests.broker import Broker
from webapp.access import limits
from webapp.jobs import queue
from webapp.models import Job, JobKind

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql_only]


@pytest.fixture(params=["", "not-the-password"])
def urls(port_broker: Broker, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The broker's addresses with another password, or none."""
    queue.producer.cache_clear()
    yield {name: url.replace(port_broker.password, request.param) for name, url in port_broker.urls.items()}
    queue.producer.cache_clear()


def test_a_job_waits_for_the_right_one(
    urls: dict[str, str],
    port_broker: Broker,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    def send() -> None:
        queue.producer.cache_clear()
        with django_capture_on_commit_callbacks(execute=True):
            queue.enqueue(Job.objects.first())  # type: ignore[arg-type]

    Job.objects.create(kind=JobKind.INDEX)
    settings.BROKER_URL = urls["BROKER_URL"]
    send()
    assert Job.objects.get().sent_at is None
    assert "stay queued (1)" in caplog.text and "not-the-password" not in caplog.text
    settings.BROKER_URL = port_broker.urls["BROKER_URL"]
    send()
    with port_broker.client() as client:
        assert Job.objects.get().sent_at is not None and client.llen("default") == 1
        client.flushdb()
    assert port_broker.password not in caplog.text


def test_questions_are_answered_without_a_limit_while_the_cache_refuses(
    urls: dict[str, str],
    port_broker: Broker,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.ASK_RATE = "5/day"
    request = RequestFactory().get("/")
    request.user = AnonymousUser()

    def count(url: str) -> limits.Allowance | None:
        monkeypatch.setattr(limits, "cache", RedisCache(url, {}))
        return limits.count(request)

    assert count(urls["CACHE_URL"]) is None
    assert "Rate limits are off" in caplog.text and "not-the-password" not in caplog.text
    allowance = count(port_broker.urls["CACHE_URL"])
    assert allowance is not None and allowance.remaining == 4
    with redis.Redis.from_url(port_broker.urls["CACHE_URL"]) as client:
        client.flushdb()
