"""The lock on the files of records: shared while files are copied, exclusive while some are removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from realm_core.runs.locks import exclusive, shared


@contextmanager
def keep_files() -> Iterator[None]:
    """Prevents removals; waits for one that is running."""
    with shared(_lock()):
        yield


@contextmanager
def lock_for_removal() -> Iterator[None]:
    """Prevents copies. RealmError if files are being copied or removed already."""
    with exclusive(_lock(), "A backup is being written, or old work is being removed; try again later."):
        yield


def _lock() -> Path:
    return Path(settings.REALM_DATA) / "files.lock"
