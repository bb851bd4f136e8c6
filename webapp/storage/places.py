"""Where the files of a record lie. Paths inside the data folder are kept relative, so it can be moved."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings


def resolve(path: str) -> Path:
    """The folder that a record's `path` names."""
    return Path(settings.REALM_DATA) / path  # an absolute path stays what it is


def portable(path: Path) -> str:
    """What to write into a record for `path`: relative inside the data folder, absolute elsewhere."""
    absolute = path.resolve()
    data = Path(settings.REALM_DATA).resolve()
    return str(absolute.relative_to(data)) if absolute.is_relative_to(data) else str(absolute)


def corpora_dir() -> Path:
    """Folder of the corpora: NAME/SNAPSHOT below it."""
    return Path(settings.REALM_DATA) / "corpora"


def indexes_dir() -> Path:
    """Folder of the index generations."""
    return Path(settings.REALM_DATA) / "indexes"


def models_dir() -> Path:
    """Folder of the models that jobs make."""
    return Path(settings.REALM_DATA) / "models"


def spans_dir() -> Path:
    """Folder of the salient spans of corpora."""
    return Path(settings.REALM_DATA) / "spans"


def questions_dir() -> Path:
    """Folder of the question sets: NAME.jsonl."""
    return Path(settings.REALM_DATA) / "questions"


def evaluations_dir() -> Path:
    """Folder of the predictions that evaluations keep."""
    return Path(settings.REALM_DATA) / "evaluations"


def sources_dir() -> Path:
    """Folder into which an operator puts files to be ingested; jobs read from nowhere else."""
    return Path(settings.REALM_DATA) / "sources"


def living_dir() -> Path:
    """Folder of what edits added to corpora: NAME/segments below it."""
    return Path(settings.REALM_DATA) / "living"


def fetched_dir() -> Path:
    """Folder of what workers fetched from addresses, until an edit has read it."""
    return Path(settings.REALM_DATA) / "fetched"


def bm25_dir() -> Path:
    """Folder of BM25's indexes, one a corpus, made when first wanted."""
    return Path(settings.REALM_DATA) / "bm25"


def first_password_path() -> Path:
    """Where the first administrator's password lies until somebody has logged in with it."""
    return Path(settings.REALM_DATA) / "first_password"
