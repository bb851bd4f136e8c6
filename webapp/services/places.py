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
