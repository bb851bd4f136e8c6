"""One lock on the files that records name: shared by those who copy files, held alone by whoever removes some."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from realm_core.runs.locks import exclusive, shared


@contextmanager
def files_stay() -> Iterator[None]:
    """Nothing is removed meanwhile; waits for a removal that is under way."""
    with shared(_lock()):
        yield


@contextmanager
def files_may_go() -> Iterator[None]:
    """Nobody copies them meanwhile. RealmError when somebody does, or when something is being removed already."""
    with exclusive(_lock(), "A backup is being written, or old work is being removed; try again later."):
        yield


def _lock() -> Path:
    return Path(settings.REALM_DATA) / "files.lock"
