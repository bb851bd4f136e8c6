"""Hand a job over to the workers: its id and a task's name, nothing else.

The producer knows no task's code, so the web process imports nothing of the workers. Workers configure
their own application from the same settings (`configure`), so both sides speak the same JSON.
"""

from __future__ import annotations

import logging
from functools import cache

from celery import Celery
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

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
    app.conf.broker_transport_options = {"socket_connect_timeout": 2, "socket_timeout": 5}
    return app


def enqueue(job: Job, *, delay_s: float = 0.0) -> None:
    """Send `job` to the workers once the current transaction is committed, so that they will find its row.

    delay_s: seconds that whoever receives it waits before looking at it.
    With the broker out of reach the job stays queued, and the scheduler sends it when it is back.
    """
    transaction.on_commit(lambda: _send(str(job.pk), job.queue, delay_s))


def _send(job_id: str, queue: str, delay_s: float = 0.0) -> None:
    try:
        producer().send_task(TASK, [job_id], queue=queue, retry=False, countdown=delay_s or None)
    except (OperationalError, OSError) as error:
        log.error("Job %s stays queued, the broker at %s is out of reach: %s", job_id, settings.BROKER_URL, error)
