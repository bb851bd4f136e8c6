"""One lock on the files that records name: who copies them holds it with others, who removes some holds it alone."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from django.conf import settings

from realm_core.errors import RealmError
from realm_core.files import disk_errors

_LOCK: Final = "files.lock"


@contextmanager
def files_stay() -> Iterator[None]:
    """Nothing is removed meanwhile; waits for a removal that is under way."""
    with _held(fcntl.LOCK_SH):
        yield


@contextmanager
def files_may_go() -> Iterator[None]:
    """Nobody copies them meanwhile. RealmError when somebody does, or when something is being removed already."""
    with _held(fcntl.LOCK_EX | fcntl.LOCK_NB):
        yield


@contextmanager
def _held(kind: int) -> Iterator[None]:
    """The lock, which ends with this process. Its file stays: removing it would let two hold two files of one name."""
    path = Path(settings.REALM_DATA) / _LOCK
    with disk_errors(path), open(path, "a", encoding="ascii") as file:
        try:
            fcntl.flock(file, kind)
        except BlockingIOError:
            raise RealmError("A backup is being written, or old work is being removed; try again later.") from None
        yield
