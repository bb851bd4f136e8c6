"""The Celery application of the workers.

    celery --app workers.app worker --pool threads
    WORKER_QUEUES=fetch celery --app workers.app worker --pool threads
    celery --app workers.app beat

WORKER_QUEUES   queues that this worker takes jobs from, with commas between (default: all); or `fetch`: it fetches
                addresses and runs no jobs
WORKER_SLOTS    how many jobs it runs at once (default: 3: a training, its index builder, and one more), or how many
                addresses it fetches (default: 8)
REALM_DEVICES   devices that its jobs may use (workers/devices.py)
REALM_HOST      name of its machine, if several containers share one (default: the host's name)

A pool of threads, not of forked processes: a task only watches a subprocess, so nothing has to run in parallel; a
forked child of a process that has used torch or FAISS hangs; and a worker that is killed must not leave pool children
that go on renewing leases.

Addresses have a worker of their own: a person waits for them, and jobs may take every thread of a worker for hours.

Messages are acknowledged before the task runs (Celery's default). A job survives its worker because of the lease on its
row, not because of the broker, which would deliver anything longer than its visibility timeout twice.
"""

from __future__ import annotations

import os

import django
from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
# What Django checks lies in the code alone, and `migrate` has checked it. It would load all pages and the REST API: a
# worker would take 35 MB more and half as long again to start.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")
django.setup()

from django.core.exceptions import ImproperlyConfigured  # noqa: E402
from kombu import Exchange  # noqa: E402
from kombu import Queue as BrokerQueue  # noqa: E402

from webapp.environment import envint, envlist  # noqa: E402 - needs the settings
from webapp.jobs.queue import configure  # noqa: E402 - needs the settings
from webapp.models import FETCH_QUEUE, Queue  # noqa: E402 - needs the settings
from workers import devices  # noqa: E402 - needs the settings
from workers.beat import every  # noqa: E402

QUEUES = envlist("WORKER_QUEUES", list(Queue.values))
FETCHES = QUEUES == [FETCH_QUEUE]
SLOTS = envint("WORKER_SLOTS", 8 if FETCHES else 3, minimum=1)
TIDY_EVERY_S = 10
SCHEDULE_EVERY_S = 20
RETAIN_EVERY_S = 3600
FOLD_EVERY_S = 600

for _name in QUEUES:
    if not FETCHES and _name not in Queue.values:
        known = f"some of {', '.join(Queue.values)}, or {FETCH_QUEUE} alone"
        raise ImproperlyConfigured(f"WORKER_QUEUES must be {known}, not {','.join(QUEUES)!r}.")

devices.named()  # an invalid name stops the start

app = configure(Celery("workers"))
app.conf.update(
    imports=["workers.tasks"],
    task_queues=[BrokerQueue(name, Exchange(name), routing_key=name) for name in QUEUES],
    worker_concurrency=SLOTS,
    worker_prefetch_multiplier=1,
    worker_disable_prefetch=True,  # a waiting job belongs to whichever worker is free first
    worker_hijack_root_logger=False,  # use Django's LOGGING
    worker_cancel_long_running_tasks_on_connection_loss=False,  # a job does not need the broker while it runs
    beat_scheduler="workers.beat:InProcessScheduler",
    beat_schedule={
        "tidy": {"task": "workers.tidy", "schedule": every(TIDY_EVERY_S)},
        "schedules": {"task": "workers.run_schedules", "schedule": every(SCHEDULE_EVERY_S)},
        "retention": {"task": "workers.retain", "schedule": every(RETAIN_EVERY_S)},
        "fold": {"task": "workers.fold_edits", "schedule": every(FOLD_EVERY_S)},
    },
)
