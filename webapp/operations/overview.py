"""The overview of the service: deployment, jobs, traffic, and the state of every component."""

from __future__ import annotations

import math
import shutil
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.core.cache import cache
from django.db import DatabaseError, connection
from django.db.models import Count, Q
from django.utils import timezone
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from webapp.feedback.service import waiting_count
from webapp.jobs.queue import producer
from webapp.models import (
    FETCH_QUEUE,
    AskedAnswer,
    Deployment,
    DeviceLease,
    Feedback,
    Job,
    JobState,
    Queue,
    Schedule,
    Scheduler,
    Worker,
)
from webapp.models.job import ACTIVE
from webapp.models.worker import TRAINING
from webapp.serving.living import answering_view
from webapp.serving.presence import Answering, answering
from webapp.text import counted

if TYPE_CHECKING:
    from realm_core.living.view import CorpusView

RATE_OVER: Final = timedelta(minutes=15)
LATENCY_OVER: Final = timedelta(hours=24)
FEEDBACK_OVER: Final = timedelta(days=30)
_BROKER_PATIENCE_S: Final = 1
_DISK_LOW: Final = 0.1  # share that is free
_DISK_FULL: Final = 0.02
_LATELY: Final = timedelta(days=1)
_SHOWN: Final = 8
_TRAFFIC_FOR_S: Final = 45  # cached that long
_TRAFFIC_KEY: Final = "overview:traffic:2"  # the number changes with the fields


class Health(StrEnum):
    """The health of a component."""

    WELL = "well"
    WEAK = "weak"
    ILL = "ill"


@dataclass(frozen=True)
class Component:
    """One component and its state, in a few words."""

    name: str
    state: Health
    says: str


@dataclass(frozen=True)
class DeviceUsage:
    """A worker's device, as last reported. job: the training that holds it; others: jobs that share it."""

    worker: Worker
    name: str
    kind: str
    memory_used: int | None
    memory_total: int | None
    utilisation: float | None
    job: Job | None
    others: list[Job]

    @property
    def memory_share(self) -> float:
        """The share of memory in use, 0 to 1."""
        return (self.memory_used or 0) / self.memory_total if self.memory_total else 0.0


@dataclass(frozen=True)
class Traffic:
    """Recent questions. p95_ms: of the last day; None if there were none.

    feedback_rate: share of the answers with feedback; right_share: the share of those that were right.
    waiting: feedback that a curator has yet to review.
    """

    per_minute: float
    today: int
    p95_ms: float | None
    answers: int
    feedback: int
    feedback_rate: float | None
    right_share: float | None
    waiting: int


@dataclass(frozen=True)
class Overview:
    """The whole overview. lost: workers with a last sign of life within the hour that did not announce their end.

    corpus: the deployed one as it is now; None if it cannot be read.
    ended: jobs that ended within a day and need attention. failed_schedules: whose last run does, however long ago;
    of those that are switched off, within a day.
    """

    deployment: Deployment | None
    corpus: CorpusView | None
    parts: list[Component]
    web: Answering
    workers: list[Worker]
    lost: list[Worker]
    devices: list[DeviceUsage]
    running: list[Job]
    queued: list[Job]
    queued_count: int
    ended: list[Job]
    failed_schedules: list[Schedule]
    traffic: Traffic


def overview() -> Overview:
    """Query everything once. DatabaseError if the database does not answer: then there is nothing to show."""
    known = list(Worker.known())
    workers = [worker for worker in known if worker.is_alive]
    lost = [worker for worker in known if not worker.is_alive]
    jobs = Job.objects.select_related("created_by", "parent").defer("log", "result")
    active = list(jobs.filter(state__in=ACTIVE, parent=None).order_by("queued_at"))
    queued = [job for job in active if job.state == JobState.QUEUED]
    failed = jobs.filter(
        state__in=(JobState.FAILED, JobState.INTERRUPTED), finished_at__gte=timezone.now() - _LATELY, parent=None
    )
    deployment = Deployment.active()
    web = answering(deployment)
    return Overview(
        deployment=deployment,
        corpus=answering_view(),
        parts=[_web(web), _workers(workers), _scheduler(), _broker(), _database(), _disk()],
        web=web,
        workers=workers,
        lost=lost,
        devices=_devices(workers),
        running=[job for job in active if job.state != JobState.QUEUED],
        queued=queued[:_SHOWN],
        queued_count=len(queued),
        ended=list(failed.order_by("-finished_at")[:_SHOWN]),
        failed_schedules=list(
            Schedule.objects.filter(last_failed=True)
            .filter(Q(enabled=True) | Q(last_run_at__gte=timezone.now() - _LATELY))
            .order_by("-last_run_at")
        ),
        traffic=_lately(),
    )


def _web(web: Answering) -> Component:
    if web.deployment is None:
        return Component("Web", Health.WEAK, "runs; nothing is deployed")
    number = web.deployment.pk
    if web.all_loaded:
        many = "" if len(web.alive) == 1 else f"{len(web.alive)} processes answer"
        return Component("Web", Health.WELL, f"{many or 'answers'} with deployment {number}")
    if len(web.alive) > 1:
        says = f"{len(web.with_it)} of {len(web.alive)} processes answer with deployment {number}"
        why = sorted({one.reason for one in web.failed})
        return Component("Web", Health.ILL if why else Health.WEAK, "; ".join([says, *why]))
    (only,) = web.alive
    if only.reason:
        still = f" Deployment {only.deployment_id} answers." if only.deployment_id else ""
        return Component("Web", Health.ILL, only.reason + still)
    if web.earlier:
        return Component("Web", Health.WEAK, f"answers with deployment {web.earlier[0]}; {number} is being loaded")
    return Component("Web", Health.WEAK, "The model is being loaded.")


def _workers(workers: list[Worker]) -> Component:
    jobs_at_once = sum(worker.slots for worker in workers if not worker.fetches)
    if not jobs_at_once:
        return Component("Workers", Health.ILL, "none for jobs is running, so no job can run")
    taken = {queue for worker in workers for queue in worker.queues}
    # Parts, too: without a builder, a training uses an index that grows stale.
    left = sorted(set(Job.objects.filter(state__in=ACTIVE).values_list("queue", flat=True)) - taken)
    if left:
        return Component("Workers", Health.ILL, f"none takes jobs of the queue {', '.join(left)}")
    says = [f"{counted(len(workers), 'worker')}, {counted(jobs_at_once, 'job')} at once"]
    if untaken := [queue for queue in Queue.values if queue not in taken]:
        says.append(f"none takes jobs of the queue {', '.join(untaken)}")
    if FETCH_QUEUE not in taken:
        says.append("none fetches addresses, so no document is added from one")
    return Component("Workers", Health.WEAK if says[1:] else Health.WELL, "; ".join(says))


def _scheduler() -> Component:
    last = Scheduler.objects.order_by("-seen_at").first()
    if last is not None and last.is_alive:
        return Component("Scheduler", Health.WELL, f"runs on {last.host}")
    without = "jobs of lost workers are not resumed, and no schedule runs"
    if last is None:  # as in the first seconds of a new installation
        return Component("Scheduler", Health.WEAK, f"not heard of yet: {without}")
    return Component("Scheduler", Health.ILL, f"not heard of since {last.seen_at:%-d %b, %H:%M} UTC: {without}")


def _broker() -> Component:
    started = time.monotonic()
    try:
        with producer().connection_for_write() as link:
            link.ensure_connection(max_retries=1, timeout=_BROKER_PATIENCE_S)
    except (OperationalError, OSError):
        return Component("Broker", Health.ILL, "does not answer; jobs wait until it does")
    return Component("Broker", Health.WELL, f"answers within {_milliseconds(started)} ms")


def _database() -> Component:
    started = time.monotonic()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return Component("Database", Health.ILL, "does not answer")
    return Component("Database", Health.WELL, f"{connection.display_name}, answers within {_milliseconds(started)} ms")


def _disk() -> Component:
    usage = shutil.disk_usage(settings.REALM_DATA)
    free = usage.free / usage.total
    state = Health.ILL if free < _DISK_FULL else Health.WEAK if free < _DISK_LOW else Health.WELL
    return Component("Disk", state, f"{usage.free / 1e9:,.1f} GB free of {usage.total / 1e9:,.1f} GB")


def _devices(workers: list[Worker]) -> list[DeviceUsage]:
    held: dict[str, Job] = {}
    shared: dict[str, list[Job]] = {}
    for lease in DeviceLease.objects.select_related("job").defer("job__log"):
        if lease.place == TRAINING:
            held[lease.device] = lease.job
        else:
            shared.setdefault(lease.device, []).append(lease.job)
    found: dict[str, DeviceUsage] = {}
    for worker in workers:  # several workers of one machine report the same devices
        for one in worker.devices:
            name = str(one.get("name", ""))
            key = name if name.startswith(f"{worker.host}/") else f"{worker.host}/{name}"
            found.setdefault(
                key,
                DeviceUsage(
                    worker=worker,
                    name=key,
                    kind=str(one.get("kind", "")),
                    memory_used=one.get("memory_used"),
                    memory_total=one.get("memory_total"),
                    utilisation=one.get("utilisation"),
                    job=held.get(key),
                    others=shared.get(key, []),
                ),
            )
    return [found[key] for key in sorted(found)]


def _lately() -> Traffic:
    """The traffic as counted at most `_TRAFFIC_FOR_S` ago: pages poll every few seconds, and answers are many."""
    try:
        kept = cache.get(_TRAFFIC_KEY)
        if kept is None:
            kept = asdict(_traffic())
            cache.set(_TRAFFIC_KEY, kept, timeout=_TRAFFIC_FOR_S)
    except RedisError:  # the broker, which also caches, has a line of its own
        return _traffic()
    return Traffic(**kept)


def _traffic() -> Traffic:
    now = timezone.now()
    asked = AskedAnswer.objects.filter(created_at__gte=now - FEEDBACK_OVER).aggregate(
        lately=Count("created_at", filter=Q(created_at__gte=now - RATE_OVER)),
        today=Count("created_at", filter=Q(created_at__gte=now - LATENCY_OVER)),
        all=Count("created_at"),
    )
    said = Feedback.objects.filter(answer__created_at__gte=now - FEEDBACK_OVER).aggregate(
        answers=Count("answer", distinct=True),
        called_right=Count("pk", filter=Q(right=True)),
        judged=Count("pk", filter=Q(right__isnull=False)),
    )
    # The smallest latency that 95 of 100 questions did not exceed; answers may be deleted between the two queries.
    latencies = AskedAnswer.objects.filter(created_at__gte=now - LATENCY_OVER).order_by("latency_ms")
    rank = max(0, -(-95 * asked["today"] // 100) - 1)
    return Traffic(
        per_minute=asked["lately"] / (RATE_OVER.total_seconds() / 60),
        today=asked["today"],
        p95_ms=latencies.values_list("latency_ms", flat=True)[rank : rank + 1].first(),
        answers=asked["all"],
        feedback=said["answers"],
        feedback_rate=said["answers"] / asked["all"] if asked["all"] else None,
        right_share=said["called_right"] / said["judged"] if said["judged"] else None,
        waiting=waiting_count(),
    )


def _milliseconds(started: float) -> int:
    """Milliseconds since a moment of the monotonic clock, rounded up."""
    return math.ceil(1000 * (time.monotonic() - started))
