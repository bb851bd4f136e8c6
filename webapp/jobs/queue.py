"""Sends jobs to the workers: the job's id and a task's name, nothing else.

The producer does not have the task's code, so the web process imports nothing of the workers. Workers configure their
own application with the same settings (`configure`), so both sides use the same JSON.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from datetime import datetime
from functools import cache

from celery import Celery
from django.conf import settings
from django.db import Error, transaction
from django.utils import timezone
from kombu.exceptions import OperationalError
from kombu.utils.url import maybe_sanitize_url

from webapp.models import Job, Queue

log = logging.getLogger(__name__)

TASK = "workers.run_job"


def configure(app: Celery) -> Celery:
    """Apply the settings of producer and workers to `app`; returns it."""
    app.conf.update(
        broker_url=settings.BROKER_URL,
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,  # the Job row has the result; there is no result backend
        task_default_queue=Queue.DEFAULT.value,
        enable_utc=True,
        timezone="UTC",
        broker_connection_retry_on_startup=True,
    )
    return app


@cache
def producer() -> Celery:
    """The application that sends tasks by name."""
    app = configure(Celery("webapp", set_as_current=False))
    # A person waits for the page, so give up soon; the scheduler sends queued jobs again.
    app.conf.broker_transport_options = {
        "socket_connect_timeout": 2,  # seconds
        "socket_timeout": 5,
        "max_retries": 1,  # at once; kombu's default retries take six seconds
        "interval_start": 0,
        "interval_step": 0,
    }
    return app


def enqueue(*jobs: Job, delay_s: float = 0.0) -> None:
    """Send jobs to the workers after the current transaction is committed, so that they find the rows.

    delay_s: seconds that the receiver waits before it reads the row.
    Jobs that are no longer queued, or have a newer message, are skipped. If the broker cannot be reached, jobs stay
    queued, and the scheduler sends them later.
    """
    now = timezone.now()
    marked = [job for job in jobs if job.mark_sent(now)]
    if marked:
        transaction.on_commit(lambda: _send(marked, now, delay_s))


def _send(jobs: Sequence[Job], now: datetime, delay_s: float) -> None:
    """Send messages of (job's id, time of sending); the row has the time of the newest one."""
    for number, job in enumerate(jobs):
        try:
            producer().send_task(
                TASK, [str(job.pk), now.isoformat()], queue=job.queue, retry=False, countdown=delay_s or None
            )
        except (OperationalError, OSError) as error:
            unsent = jobs[number:]  # each would run into the same timeout
            where = maybe_sanitize_url(settings.BROKER_URL)  # without its password
            log.error("Jobs stay queued (%d), the broker at %s cannot be reached: %s", len(unsent), where, error)
            with contextlib.suppress(Error):  # they are sent again a little later
                Job.unmark_sent(unsent, now)
            return
