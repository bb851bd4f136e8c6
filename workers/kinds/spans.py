"""Find the salient spans of a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webapp.artefacts.registering import record_spans
from webapp.kinds.settings import SpansSettings
from webapp.models import CorpusSnapshot, Job
from webapp.storage.places import spans_dir
from workers.kinds.base import Kind, folder_name, given, path_of


def command(job: Job) -> list[str]:
    """The folder is the job's own, so that the next attempt finds the shards of this one."""
    parameters = given(job)
    corpus, settings = parameters["corpus"], parameters.settings[SpansSettings]
    return [
        *("realm_core", "spans"),
        f"--corpus={path_of(corpus)}",
        f"--output={spans_dir() / folder_name(f'{corpus.name}-{settings.tagger}', job)}",
        f"--tagger={settings.tagger}",
        f"--seed={settings.seed}",
        *([f"--labels={settings.labels}"] if settings.labels else []),
        *([] if settings.dates else ["--no-dates"]),
        *([f"--blocks={settings.blocks}"] if settings.blocks else []),
    ]


def record(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """Record the spans."""
    corpus = CorpusSnapshot.objects.get(pk=job.parameters["corpus"])
    settings: SpansSettings = given(job).settings[SpansSettings]
    tagger = settings.tagger + (" and dates" if settings.dates and settings.tagger != "dates" else "")
    spans = record_spans(Path(result["path"]), corpus=corpus, tagger=tagger, counts=result, job=job)
    return {"spans": spans.pk, "count": spans.spans, "blocks": spans.blocks}


KIND = Kind(command=command, record=record)
