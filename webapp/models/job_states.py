"""What jobs there are, which workers take them, and where they can stand."""

from __future__ import annotations

import enum
from typing import Final

from django.db import models


class JobState(models.TextChoices):
    """Where a job stands; `webapp/models/job.py` draws how it gets there."""

    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    STOPPING = "stopping", "stopping"
    SUCCEEDED = "succeeded", "succeeded"
    FAILED = "failed", "failed"
    STOPPED = "stopped", "stopped"
    INTERRUPTED = "interrupted", "interrupted"


class JobKind(enum.StrEnum):
    """Kinds of job that the code names; all of them, with what each needs, are in `webapp.kinds`."""

    INGEST = "ingest"
    WARMSTART = "warmstart"
    INDEX = "index"
    INDEX_SHARD = "index-shard"
    ICT = "ict"
    MLM = "mlm"
    SPANS = "spans"
    PRETRAIN = "pretrain"
    REFRESH = "refresh"
    FINETUNE = "finetune"
    EVALUATE = "evaluate"
    ABLATE = "ablate"
    EXPORT = "export"


class Queue(models.TextChoices):
    """Which workers take a job."""

    DEFAULT = "default", "default"
    INDEX = "index", "index"
    TRAIN = "train", "train"


HELD: Final = (JobState.RUNNING, JobState.STOPPING)
ACTIVE: Final = (JobState.QUEUED, *HELD)
RESUMABLE: Final = (JobState.FAILED, JobState.STOPPED, JobState.INTERRUPTED)
FINISHED: Final = (JobState.SUCCEEDED, *RESUMABLE)
BESIDE: Final = (JobKind.REFRESH,)  # run as long as what they are a part of, and have no end of their own
