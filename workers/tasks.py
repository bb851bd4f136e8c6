"""The tasks: run a job, and bring back jobs that were lost."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from datetime import datetime, timedelta
from typing import Any

from celery.signals import worker_ready, worker_shutting_down
from django.db import close_old_connections
from django.utils import timezone

from webapp.environment import envint
from webapp.models import Job
from webapp.queue import TASK, enqueue
from workers.app import app
from workers.job_run import JobRun, Timing, shutting_down

log = logging.getLogger(__name__)

# A queued job that nobody claimed for so long is sent again; its message may have been lost with the broker.
RESEND_AFTER_S = 30


@worker_shutting_down.connect
def hand_jobs_back(**_details: Any) -> None:
    """Let every running job of this worker end and wait for the next worker."""
    shutting_down.set()


@worker_ready.connect
def take_up_waiting_jobs(**_details: Any) -> None:
    """Send every waiting job again when a worker starts: the last one may have handed jobs back when it ended."""
    try:
        _send_waiting(timezone.now())
    finally:
        close_old_connections()


@app.task(name=TASK)
def run_job(job_id: str) -> None:
    """Claim the job and see it to its end; nothing happens if somebody else has it."""
    timing = Timing.for_lease(envint("JOB_LEASE_S", 60, minimum=1))
    owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    job = None if shutting_down.is_set() else Job.claim(job_id, owner, timing.lease_s)
    if job is None:
        log.info("Job %s is not waiting for a worker.", job_id)
        return
    log.info("Job %s (%s), attempt %d, as %s", job.pk, job.kind, job.attempt, owner)
    JobRun(job, owner, timing).run()
    log.info("Job %s: %s", job.pk, job.state)


@app.task(name="workers.requeue_expired")
def requeue_expired() -> None:
    """Queue the jobs of lost workers again, and send those again whose message seems to be lost."""
    for job in Job.recover_expired():
        log.warning("Job %s lost its worker and is queued again.", job.pk)
        enqueue(job)
    _send_waiting(timezone.now() - timedelta(seconds=RESEND_AFTER_S))


def _send_waiting(since: datetime) -> None:
    for job in Job.waiting_since(since):
        enqueue(job)
