"""The Celery application of the workers.

    celery --app workers.app worker --pool threads --concurrency 2 --queues default,index,train
    celery --app workers.app beat --scheduler celery.beat:Scheduler

A pool of threads, not of forked processes: a task only watches a subprocess, so there is nothing to run in
parallel; a forked child of a process that has used torch or FAISS hangs; and a worker that is killed must
leave no pool children behind that go on renewing leases.

Messages are acknowledged before the task runs (Celery's default). What makes a job survive its worker is the
lease on its row, not the broker, which would deliver anything longer than its visibility timeout twice.
"""

from __future__ import annotations

import os

import django
from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
django.setup()

from webapp.models import Queue  # noqa: E402 - needs the settings
from webapp.queue import configure  # noqa: E402 - needs the settings

REQUEUE_EVERY_S = 10

app = configure(Celery("workers"))
app.conf.update(
    imports=["workers.tasks"],
    worker_prefetch_multiplier=1,  # a waiting job belongs to whichever worker is free first
    worker_hijack_root_logger=False,  # Django's LOGGING holds here too
    worker_cancel_long_running_tasks_on_connection_loss=False,  # a job does not need the broker while it runs
    beat_schedule={
        "requeue-expired": {
            "task": "workers.requeue_expired",
            "schedule": REQUEUE_EVERY_S,
            "options": {"queue": Queue.DEFAULT.value, "expires": REQUEUE_EVERY_S},
        }
    },
)
