"""Kinds, queues and states of jobs."""

from __future__ import annotations

import enum
from typing import Final

from django.db import models

from realm_core.tasks import JOBS


class JobState(models.TextChoices):
    """The state of a job; `webapp/models/job.py` draws the transitions."""

    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    STOPPING = "stopping", "stopping"
    SUCCEEDED = "succeeded", "succeeded"
    FAILED = "failed", "failed"
    STOPPED = "stopped", "stopped"
    INTERRUPTED = "interrupted", "interrupted"


class JobKind(enum.StrEnum):
    """Kinds of job that the code names; `webapp.kinds` has all of them."""

    INGEST = "ingest"
    WARMSTART = "warmstart"
    INDEX = "index"
    INDEX_SHARD = "index-shard"
    FOLD = "fold"
    JOIN = "join"
    SPANS = "spans"
    REFRESH = "refresh"
    EVALUATE = "evaluate"
    CALIBRATE = "calibrate"
    ABLATE = "ablate"


class Queue(models.TextChoices):
    """The queue of a job, which decides the workers that run it."""

    DEFAULT = "default", "default"
    INDEX = "index", "index"
    TRAIN = "train", "train"


FETCH_QUEUE: Final = "fetch"  # of addresses to fetch: a worker takes it alone, so that no job can take its threads

HELD: Final = (JobState.RUNNING, JobState.STOPPING)
ACTIVE: Final = (JobState.QUEUED, *HELD)
RESUMABLE: Final = (JobState.FAILED, JobState.STOPPED, JobState.INTERRUPTED)
FINISHED: Final = (JobState.SUCCEEDED, *RESUMABLE)
UNFINISHED: Final = (*ACTIVE, JobState.INTERRUPTED)  # interrupted jobs resume by themselves
# Run as long as the job that they are a part of.
COMPANION_KINDS: Final = tuple(kind for kind, task in JOBS.items() if task.companion)
