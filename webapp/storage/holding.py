"""The lock on the files of records: shared while files are copied, exclusive while some are removed."""

from __future__ import annotations

from contextlib import AbstractContextManager

from realm_core.runs.locks import exclusive, shared
from webapp.storage.places import resolve

_LOCK = "files.lock"


def keep_files() -> AbstractContextManager[object]:
    """Prevents removals; waits for one that is running."""
    return shared(resolve(_LOCK))


def lock_for_removal() -> AbstractContextManager[object]:
    """Prevents copies. RealmError if files are being copied or removed already."""
    return exclusive(resolve(_LOCK), "A backup is being written, or old work is being removed; try again later.")
