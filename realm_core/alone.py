"""One process at a time in a folder."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from realm_core.activity import Activity
from realm_core.files import disk_errors

LOCK = ".lock"
_LOOK_S = 0.2


@contextmanager
def only_one(folder: Path, activity: Activity) -> Iterator[int]:
    """Make a folder and hold its lock; another process that works there is waited for.

    Yields the lock's descriptor: processes that inherit it hold the lock with this one.
    """
    waited = False
    while True:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            while not _locked(lock):
                if not waited:
                    activity.say(f"Waiting for another process that works in {folder}.")
                    waited = True
                activity.check()
                time.sleep(_LOOK_S)
            if _is_there(lock, folder / LOCK):
                try:
                    yield lock
                finally:
                    (folder / LOCK).unlink(missing_ok=True)
                return
        finally:
            os.close(lock)


def _locked(lock: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _is_there(lock: int, path: Path) -> bool:
    """Whether what was locked is still what others would lock: whoever had it has removed it."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock), path.stat())
    return False
