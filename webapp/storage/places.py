"""The places of records' files. Paths inside the data folder are stored relative to it, so it can be moved."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings


def resolve(path: str) -> Path:
    """The folder that a record's `path` names."""
    return Path(settings.REALM_DATA) / path  # an absolute path stays absolute


def portable(path: Path) -> str:
    """The form of `path` in a record: relative inside the data folder, absolute elsewhere."""
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
    """Folder for an operator's files to ingest; jobs read sources only from there."""
    return Path(settings.REALM_DATA) / "sources"


def living_dir() -> Path:
    """Folder of the edits of corpora: NAME/segments below it."""
    return Path(settings.REALM_DATA) / "living"


def fetched_dir() -> Path:
    """Folder of what workers fetched from the web, until an edit has read it."""
    return Path(settings.REALM_DATA) / "fetched"


def originals_dir() -> Path:
    """Folder of the PDFs that documents were read from."""
    return Path(settings.REALM_DATA) / "originals"


def bm25_dir() -> Path:
    """Folder of BM25's indexes, one per corpus, made on first use."""
    return Path(settings.REALM_DATA) / "bm25"


def first_password_path() -> Path:
    """File with the first administrator's password, until the first login with it."""
    return Path(settings.REALM_DATA) / "first_password"
