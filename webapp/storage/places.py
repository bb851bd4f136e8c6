"""The places of records' files, and the lock on them: shared while some are copied, exclusive while some are removed.

Paths inside the data folder are stored relative to it, so it can be moved.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from django.conf import settings

from realm_core.runs.locks import exclusive, shared

_LOCK = "files.lock"


def resolve(path: str) -> Path:
    """The folder that a record's `path` names."""
    return Path(settings.REALM_DATA) / path  # an absolute path stays absolute


def portable(path: Path) -> str:
    """The form of `path` in a record: relative inside the data folder, absolute elsewhere."""
    absolute = path.resolve()
    data = Path(settings.REALM_DATA).resolve()
    return str(absolute.relative_to(data)) if absolute.is_relative_to(data) else str(absolute)


corpora_dir = partial(resolve, "corpora")  # NAME/SNAPSHOT below it
indexes_dir = partial(resolve, "indexes")  # the index generations
models_dir = partial(resolve, "models")  # that jobs make
spans_dir = partial(resolve, "spans")  # the salient spans of corpora
questions_dir = partial(resolve, "questions")  # the question sets: NAME.jsonl
evaluations_dir = partial(resolve, "evaluations")  # the predictions that evaluations keep
sources_dir = partial(resolve, "sources")  # an operator's files to ingest; jobs read sources only from there
living_dir = partial(resolve, "living")  # the edits of corpora: NAME/segments below it
fetched_dir = partial(resolve, "fetched")  # what workers fetched from the web, until an edit has read it
originals_dir = partial(resolve, "originals")  # the PDFs that documents were read from
bm25_dir = partial(resolve, "bm25")  # BM25's indexes, one per corpus, made on first use
runs_dir = partial(resolve, "runs")  # the run folders of jobs
# A file with the first administrator's password, until the first login with it.
first_password_path = partial(resolve, "first_password")


def keep_files() -> AbstractContextManager[object]:
    """Prevents removals; waits for one that is running."""
    return shared(resolve(_LOCK))


def lock_for_removal() -> AbstractContextManager[object]:
    """Prevents copies. RealmError if files are being copied or removed already."""
    return exclusive(resolve(_LOCK), "A backup is being written, or old work is being removed; try again later.")
