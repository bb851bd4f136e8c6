"""Build an index: embed every block of a corpus snapshot with a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from realm_core.errors import RealmError
from webapp.models import CorpusSnapshot, Job, ModelVersion
from webapp.services.places import indexes_dir, resolve
from webapp.services.registering import record_index
from workers.kinds.base import Kind


def command(job: Job) -> list[str]:
    """The parameters are {"model": pk, "corpus": pk}."""
    model, corpus = _inputs(job)
    return [
        *("-m", "realm_core", "index"),
        f"--model={resolve(model.path)}",
        f"--corpus={resolve(corpus.path)}",
        f"--output={indexes_dir()}",
        # Named after the job, so that the next attempt finds the shards of this one.
        f"--generation={corpus.name}-{model.name}-{job.pk.hex[:8]}",
    ]


def record(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """Record the generation that was published."""
    model, _ = _inputs(job)
    index = record_index(Path(result["path"]), model=model, job=job)
    return {"index": index.pk, "generation": index.generation, "rows": index.rows}


def _inputs(job: Job) -> tuple[ModelVersion, CorpusSnapshot]:
    try:
        return (
            ModelVersion.objects.get(pk=job.parameters["model"]),
            CorpusSnapshot.objects.get(pk=job.parameters["corpus"]),
        )
    except (KeyError, TypeError, ValueError, ModelVersion.DoesNotExist, CorpusSnapshot.DoesNotExist):
        raise RealmError(f"The job's model or corpus does not exist any more: {job.parameters}.") from None


KIND = Kind(command=command, record=record)
