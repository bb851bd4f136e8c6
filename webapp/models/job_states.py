"""What jobs there are, which workers take them, and where they can stand."""

from __future__ import annotations

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


class JobKind(models.TextChoices):
    """What a job does; `webapp.kinds` says what each needs."""

    INGEST = "ingest", "ingest a corpus"
    WARMSTART = "warmstart", "make a first model"
    INDEX = "index", "build an index"
    INDEX_SHARD = "index-shard", "embed one shard of an index"
    ICT = "ict", "warm up the embedder (ICT)"
    MLM = "mlm", "warm up the encoder (MLM)"
    SPANS = "spans", "find salient spans"
    PRETRAIN = "pretrain", "pre-train"
    REFRESH = "refresh", "rebuild the index of a pre-training"
    FINETUNE = "finetune", "fine-tune"
    EVALUATE = "evaluate", "evaluate"
    ABLATE = "ablate", "ablate"
    EXPORT = "export", "export a model"


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
