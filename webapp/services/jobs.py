"""Start, stop and resume jobs."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from webapp.models import CorpusSnapshot, Job, JobKind, ModelVersion
from webapp.models.job import ACTIVE
from webapp.queue import enqueue


def start_index_build(model: ModelVersion, corpus: CorpusSnapshot, *, by: User | None) -> Job:
    """Build the index of `corpus` by `model`, or return the job that is doing so already."""
    return _start_once(JobKind.INDEX, {"model": model.pk, "corpus": corpus.pk}, by)


def resume(job: Job) -> bool:
    """Queue a job again that failed, was stopped or was interrupted. False: it is none of these any more."""
    with transaction.atomic():
        resumed = job.resume()
        if resumed:
            enqueue(job)
    return resumed


def _start_once(kind: JobKind, parameters: dict[str, Any], by: User | None) -> Job:
    with transaction.atomic():
        same = Job.objects.filter(kind=kind, parameters=parameters, state__in=ACTIVE).first()
        if same is not None:
            return same
        job = Job.objects.create(kind=kind, parameters=parameters, created_by=by)
        enqueue(job)
    return job
