"""Ingest a corpus: a package's articles, or a file that an operator has put into the data folder's sources/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webapp.artefacts.registering import record_corpus
from webapp.kinds.settings import IngestSettings
from webapp.models import Job
from webapp.storage.places import corpora_dir, sources_dir
from workers.kinds.base import Kind, given, missing


def command(job: Job) -> list[str]:
    """Its snapshot is named by its content, so the next attempt finds it, or the parts of it."""
    settings: IngestSettings = given(job).settings[IngestSettings]
    words = ["realm_core", "ingest", f"--source={settings.source}", f"--output={corpora_dir()}"]
    if settings.file:
        path = sources_dir() / settings.file
        if not path.is_file():
            raise missing(path, "The source")
        words.append(f"--path={path}")
    told = {
        "name": settings.corpus_name,
        # A dump says itself in which language it is, unless somebody says another than the default.
        "language": "" if (settings.source, settings.language) == ("mediawiki", "en") else settings.language,
        "licence": settings.licence,
        "attribution": settings.attribution,
    }
    return words + [f"--{name}={value}" for name, value in told.items() if value]


def record(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """Record the snapshot; the same articles again are the snapshot that is there."""
    corpus = record_corpus(Path(result["path"]), job=job)
    return {"corpus": corpus.pk, "snapshot": corpus.snapshot_id, "articles": corpus.articles, "blocks": corpus.blocks}


KIND = Kind(command=command, record=record)
