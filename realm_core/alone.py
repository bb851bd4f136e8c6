"""One process at a time in a folder."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from realm_core.activity import Activity
from realm_core.errors import RealmError
from realm_core.files import disk_errors

LOCK = ".lock"
_LOOK_S = 0.2


@contextmanager
def only_one(folder: Path, activity: Activity) -> Iterator[int]:
    """Make a folder and hold its lock; another process that works there is waited for.

    Yields the lock's descriptor: processes that inherit it hold the lock, too, however long they live.
    """
    lock = _wait(folder, activity)
    try:
        yield lock
    finally:
        os.close(lock)
        _tidy(folder / LOCK)


def _wait(folder: Path, activity: Activity) -> int:
    """A descriptor of the lock, which is held."""
    waited = False
    while True:
        lock = _opened(folder)
        if lock is None:
            continue
        try:
            while not _locked(lock, folder):
                if not waited:
                    activity.say(f"Waiting for another process that works in {folder}.")
                    waited = True
                activity.check()
                time.sleep(_LOOK_S)
        except BaseException:
            os.close(lock)
            raise
        if _is_there(lock, folder / LOCK):
            return lock
        os.close(lock)  # whoever had it has removed it; others lock another file by now


def _opened(folder: Path) -> int | None:
    """The lock's file; None where the folder was removed just when it had been made."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:
            if folder.is_dir():
                raise
            return None


def _locked(lock: int, folder: Path) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # of a network's disk that knows no locks
        raise RealmError(f"{folder} cannot be locked: {error.strerror}.") from error
    return True


def _is_there(lock: int, path: Path) -> bool:
    """Whether what was opened is still what others would open."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.path.samestat(os.fstat(lock), path.stat())
    return False


def _tidy(path: Path) -> None:
    """Remove a lock that nobody holds any more; one that a child inherited stays."""
    with suppress(OSError):
        lock = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(lock, path):
                path.unlink()
        finally:
            os.close(lock)
