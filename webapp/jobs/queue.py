"""Hand a job over to the workers: its id and a task's name, nothing else.

The producer knows no task's code, so the web process imports nothing of the workers. Workers configure
their own application from the same settings (`configure`), so both sides speak the same JSON.
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
    """Apply to `app` what producer and workers must agree on; returns it."""
    app.conf.update(
        broker_url=settings.BROKER_URL,
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,  # a Job row says what became of it; there is no result backend
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
    # A person waits for the page: give up soon, the scheduler sends queued jobs again.
    app.conf.broker_transport_options = {
        "socket_connect_timeout": 2,  # seconds
        "socket_timeout": 5,
        "max_retries": 1,  # at once; those that kombu makes unless told take six seconds
        "interval_start": 0,
        "interval_step": 0,
    }
    return app


def enqueue(*jobs: Job, delay_s: float = 0.0) -> None:
    """Send jobs to the workers once the current transaction is committed, so that they will find the rows.

    delay_s: seconds that whoever receives one waits before looking at it.
    Those that wait no more, or of which somebody has sent a newer message, are left out. With the broker out of reach
    jobs stay queued, and the scheduler sends them when it is back.
    """
    now = timezone.now()
    marked = [job for job in jobs if job.mark_sent(now)]
    if marked:
        transaction.on_commit(lambda: _send(marked, now, delay_s))


def _send(jobs: Sequence[Job], now: datetime, delay_s: float) -> None:
    """A message says which job, and when it was sent: the newest is the one of that time in the row."""
    for number, job in enumerate(jobs):
        try:
            producer().send_task(
                TASK, [str(job.pk), now.isoformat()], queue=job.queue, retry=False, countdown=delay_s or None
            )
        except (OperationalError, OSError) as error:
            unsent = jobs[number:]  # each would wait as long for the same answer
            where = maybe_sanitize_url(settings.BROKER_URL)  # without its password
            log.error("Jobs stay queued (%d), the broker at %s is out of reach: %s", len(unsent), where, error)
            with contextlib.suppress(Error):  # then they are sent again a little later
                Job.unmark_sent(unsent, now)
            return
