"""The overview: every number recounted here, and every part that can be ill."""

from __future__ import annotations

import re
import shutil
from collections import namedtuple
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.web.conftest import FakeEngine, Loader, Person
from tests.web.pages import stored
from webapp.models import FETCH_QUEUE, AskedAnswer, DeviceLease, Feedback, Job, JobKind, JobState, Scheduler, Worker
from webapp.operations import overview
from webapp.operations.overview import Health
from webapp.serving.engine import holder

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _engine(loader: Loader) -> None:
    """No page here loads a real model."""


def part(name: str) -> overview.Component:
    return next(one for one in overview.overview().parts if one.name == name)


def worker(**values: Any) -> Worker:
    return Worker.objects.create(**{"name": "a:1", "host": "a", "queues": ["default"], "slots": 1, **values})


def test_traffic_is_what_was_asked() -> None:
    now = timezone.now()
    for number in range(1, 21):
        asked = stored.store()
        age = timedelta(hours=30) if number == 20 else timedelta(hours=2) if number > 15 else timedelta(minutes=1)
        AskedAnswer.objects.filter(pk=asked.pk).update(created_at=now - age, latency_ms=100.0 * number)
        if number <= 4:
            Feedback.objects.create(answer=asked, right=number == 1, session_key="somebody")
    Feedback.objects.create(answer=AskedAnswer.objects.get(latency_ms=100), right=None, session_key="somebody else")
    traffic = overview.overview().traffic
    assert traffic.per_minute == pytest.approx(15 / 15)
    assert traffic.today == 19
    assert traffic.p95_ms == 1900  # of 19, all but none took longer: 95 % of 19 are 18.05
    assert (traffic.answers, traffic.feedback, traffic.feedback_rate) == (20, 4, pytest.approx(0.2))
    assert traffic.right_share == pytest.approx(0.25)
    AskedAnswer.objects.filter(latency_ms=1900).update(created_at=now - timedelta(hours=30))
    AskedAnswer.objects.filter(latency_ms=100).update(latency_ms=50)
    for _ in range(22):  # 40 in all, of which 38 took at most 1,700 ms
        asked = stored.store()
        AskedAnswer.objects.filter(pk=asked.pk).update(latency_ms=10)
    assert overview.overview().traffic == traffic  # for a while
    cache.clear()
    assert overview.overview().traffic.p95_ms == 1600


def test_traffic_is_counted_once_however_many_look(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    stored.store()
    with django_assert_num_queries(4):
        first = overview._lately()
    with django_assert_num_queries(0):
        assert overview._lately() == first and first.today == 1


def test_traffic_is_counted_where_the_cache_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise RedisConnectionError("nobody listens")

    stored.store()
    monkeypatch.setattr(overview.cache, "get", refuse)
    assert overview.overview().traffic.today == 1


def test_where_nobody_asked_there_is_no_figure(staff: Person) -> None:
    traffic = overview.overview().traffic
    assert (traffic.per_minute, traffic.p95_ms, traffic.feedback_rate, traffic.right_share) == (0, None, None, None)
    assert "Nothing is deployed" in staff.client.get("/manage/").content.decode()


def test_jobs_are_counted_without_their_parts() -> None:
    whole = Job.objects.create(kind=JobKind.INDEX, state=JobState.RUNNING)
    Job.objects.create(kind=JobKind.INDEX_SHARD, state=JobState.QUEUED, parent=whole)
    waiting = Job.objects.create(kind="ict", state=JobState.QUEUED)
    now = timezone.now()
    lately = Job.objects.create(kind="mlm", state=JobState.FAILED, finished_at=now - timedelta(hours=1))
    Job.objects.create(kind="mlm", state=JobState.FAILED, finished_at=now - timedelta(days=2))
    Job.objects.create(kind="mlm", state=JobState.SUCCEEDED, finished_at=now)
    seen = overview.overview()
    assert (seen.running, seen.queued, seen.queued_count, seen.ended) == ([whole], [waiting], 1, [lately])


def test_workers_are_well_while_every_queue_has_one() -> None:
    assert part("Workers") == overview.Component("Workers", Health.ILL, "none for jobs is running, so no job can run")
    fetcher = worker(name="f:1", slots=8, queues=[FETCH_QUEUE])
    assert fetcher.at_once == "8 addresses"
    assert part("Workers").state == Health.ILL
    worker(seen_at=timezone.now() - timedelta(minutes=5))  # lost
    assert part("Workers").state == Health.ILL
    worker(name="b:1", slots=3, queues=["default", "index"])
    says = "2 workers, 3 jobs at once"
    assert part("Workers") == overview.Component("Workers", Health.WEAK, f"{says}; none takes jobs of the queue train")
    trainer = worker(name="c:1", queues=["train"])
    assert part("Workers") == overview.Component("Workers", Health.WELL, "3 workers, 4 jobs at once")
    fetcher.delete()
    says = "2 workers, 4 jobs at once; none fetches addresses, so no document is added from one"
    assert part("Workers") == overview.Component("Workers", Health.WEAK, says)
    trainer.delete()
    Job.objects.create(kind="ict", queue="train", state=JobState.QUEUED)
    assert part("Workers") == overview.Component("Workers", Health.ILL, "none takes jobs of the queue train")


def test_a_part_whose_queue_no_worker_serves_is_no_good_sign() -> None:
    worker(queues=["train"])
    whole = Job.objects.create(kind="pretrain", queue="train", state=JobState.RUNNING)
    assert part("Workers").state == Health.WEAK
    builder = Job.objects.create(kind=JobKind.REFRESH, queue="index", state=JobState.QUEUED, parent=whole)
    assert part("Workers") == overview.Component("Workers", Health.ILL, "none takes jobs of the queue index")
    Job.objects.filter(pk=builder.pk).update(state=JobState.SUCCEEDED)
    assert part("Workers").state == Health.WEAK


def test_a_scheduler_that_is_not_heard_of_is_ill() -> None:
    meaning = "jobs of lost workers are not resumed, and no schedule runs"
    assert part("Scheduler") == overview.Component("Scheduler", Health.WEAK, f"not heard of yet: {meaning}")
    Scheduler.objects.create(name="a:1", host="a", seen_at=datetime(2026, 3, 5, 12, 7, tzinfo=UTC))
    says = f"not heard of since 5 Mar, 12:07 UTC: {meaning}"
    assert part("Scheduler") == overview.Component("Scheduler", Health.ILL, says)
    Scheduler.objects.create(name="b:1", host="b")
    assert part("Scheduler") == overview.Component("Scheduler", Health.WELL, "runs on b")


def test_a_lost_worker_is_shown_for_an_hour(staff: Person, engine: FakeEngine) -> None:
    lost = worker(name="gone:1", seen_at=timezone.now() - timedelta(minutes=50))
    worker(name="there:1")
    page = staff.client.get("/manage/").content.decode()
    rows = re.findall(r'<th scope="row">([^ <]+)( <span class="tag tag--bad">lost)?', page)
    assert rows[:2] == [("there:1", ""), ("gone:1", ' <span class="tag tag--bad">lost')]
    Worker.objects.filter(pk=lost.pk).update(seen_at=timezone.now() - timedelta(minutes=70))
    assert "gone:1" not in staff.client.get("/manage/").content.decode()


def test_the_web_server_is_well_when_it_answers_with_the_active_deployment(loader: Loader) -> None:
    assert part("Web").state == Health.WEAK
    first = stored.deployment()
    loader.may_go_on.clear()
    assert part("Web") == overview.Component("Web", Health.WEAK, "The model is being loaded.")
    loader.may_go_on.set()
    holder().refresh(wait=True)
    assert part("Web") == overview.Component("Web", Health.WELL, f"answers with deployment {first.pk}")
    loader.error = RuntimeError("broken")
    stored.deployment()
    holder().refresh(wait=True)
    assert part("Web").state == Health.ILL


def test_a_broker_that_does_not_answer_is_ill(monkeypatch: pytest.MonkeyPatch) -> None:
    assert part("Broker").state == Health.WELL

    def refuse(*_arguments: object, **_options: object) -> None:
        raise ConnectionRefusedError("nobody listens")

    monkeypatch.setattr("kombu.Connection.ensure_connection", refuse)
    assert part("Broker") == overview.Component("Broker", Health.ILL, "does not answer; jobs wait until it does")


@pytest.mark.parametrize(("free", "state"), [(50, Health.WELL), (9, Health.WEAK), (1, Health.ILL)])
def test_a_disk_that_fills_up(free: int, state: Health, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(100 * 10**9, (100 - free) * 10**9, free * 10**9))
    assert part("Disk") == overview.Component("Disk", state, f"{free}.0 GB free of 100.0 GB")


def test_devices_are_named_once_with_who_holds_and_uses_them(staff: Person) -> None:
    gpu = {"name": "cuda:0", "kind": "GPU", "memory_used": 10, "memory_total": 40, "utilisation": 0.93}
    worker(devices=[gpu])
    worker(name="a:2", devices=[gpu])
    worker(name="b:1", host="b", devices=[{"name": "b/cpu"}])
    job = Job.objects.create(kind="ict", state=JobState.RUNNING)
    shards = [Job.objects.create(kind=JobKind.INDEX_SHARD, state=JobState.RUNNING) for _ in range(2)]
    for place, one in enumerate([job, *shards]):
        DeviceLease.objects.create(device="a/cuda:0", place=place, job=one)
    first, second = overview.overview().devices
    assert (first.name, first.memory_share, first.job, first.others) == ("a/cuda:0", 0.25, job, shards)
    assert (second.name, second.memory_share, second.utilisation, second.job) == ("b/cpu", 0.0, None, None)
    page = staff.client.get("/manage/").content.decode()
    assert "93\xa0%" in page and f'Held by <a id="device-acuda0" href="/manage/jobs/{job.pk}/">' in page
    assert page.count("Used by") == 1 and all(f'href="/manage/jobs/{one.pk}/">' in page for one in shards)


def test_the_page_refreshes_itself_and_works_without_that(staff: Person, engine: FakeEngine) -> None:
    page = staff.client.get("/manage/").content.decode()
    assert 'hx-get="/manage/status/"' in page and "Look again" in page
    assert "<html" not in staff.client.get("/manage/status/").content.decode()
