"""Build an index: embed every block of a corpus snapshot with a model.

A corpus of more than one shard is handed out: its shards are parts, which every worker of the queue takes; the build
itself comes back when all are there, and publishes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError
from webapp.artefacts.registering import record_index
from webapp.jobs.parts import Part
from webapp.kinds.settings import IndexSettings
from webapp.models import Job, JobKind, ModelVersion
from webapp.storage.places import indexes_dir
from workers.kinds.base import Kind, folder_name, given, path_of

_MOST_SHARDS = 10_000  # each is a job, which its whole looks at


def command(job: Job) -> list[str]:
    """Named after the job, so that the next attempt, and its parts, find the shards of this one."""
    parameters = given(job)
    settings: IndexSettings = parameters.settings[IndexSettings]
    return [
        *("realm_core", "index"),
        f"--model={path_of(parameters['model'])}",
        f"--corpus={path_of(parameters['corpus'])}",
        f"--output={indexes_dir()}",
        f"--generation={generation(job)}",
        f"--shard-rows={settings.shard_rows}",
    ]


def generation(job: Job) -> str:
    """The name of the generation that a job builds."""
    parameters = given(job)
    return folder_name(f"{parameters['corpus'].name[:40]}-{parameters['model'].name[:40]}", job)


def shards(job: Job) -> Sequence[Part]:
    """A part for each shard, unless there is but one or the generation is published already."""
    parameters = given(job)
    blocks: int = parameters["corpus"].blocks
    rows: int = parameters.settings[IndexSettings].shard_rows
    if blocks > rows * _MOST_SHARDS:
        raise RealmError(
            f"The corpus has {blocks:,} blocks, and an index at most {_MOST_SHARDS:,} shards: "
            f"shard_rows must be at least {-(-blocks // _MOST_SHARDS):,}, not {rows:,}."
        )
    if blocks <= rows or (indexes_dir() / generation(job)).exists():
        return ()
    return [
        Part(JobKind.INDEX_SHARD, {"shard": number, "rows": min(rows, blocks - start)})
        for number, start in enumerate(range(0, blocks, rows))
    ]


def record(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """Record the generation that was published."""
    model = ModelVersion.objects.get(pk=job.parameters["model"])
    index = record_index(Path(result["path"]), model=model, job=job)
    return {"index": index.pk, "generation": index.generation, "rows": index.rows}


KIND = Kind(command=command, record=record, before=shards)
