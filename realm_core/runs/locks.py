"""File locks: the kernel releases them when the holding process ends, however it ends.

filelock's for one exclusive holder. `shared` calls flock itself, because filelock's reader-writer lock is an SQLite
database, which is independent of `exclusive` on the same file.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from realm_core.errors import RealmError
from realm_core.files import disk_errors
from realm_core.runs.activity import Activity
from realm_core.runs.folder import LOCK
from realm_core.runs.launch import HELD_ENV

_LOOK_S = 0.2


@contextmanager
def exclusive(path: Path, refusal: str | None = None) -> Iterator[None]:
    """Hold an exclusive lock. refusal: message of the `RealmError` if it is held already; None waits instead.

    The file is not removed: otherwise two processes could lock two files of the same name.
    """
    # filelock's fallback for disks without flock would outlive a killed process.
    lock = FileLock(path, blocking=refusal is None, fallback_to_soft=False)
    try:
        with disk_errors(path):
            lock.acquire()
    except Timeout:
        raise RealmError(refusal or "") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def shared(path: Path, refusal: str | None = None) -> Iterator[None]:
    """Hold a shared lock, which excludes exclusive holders. refusal: as in `exclusive`."""
    with disk_errors(path):
        file = open(path, "a", encoding="ascii")  # noqa: SIM115 - closed below
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | (fcntl.LOCK_NB if refusal is not None else 0))
        except BlockingIOError:
            raise RealmError(refusal or "") from None
        yield


@contextmanager
def only_one(folder: Path, activity: Activity) -> Iterator[None]:
    """Create a run folder and hold its lock; waits for another process that works there.

    Nothing is locked if this process was started with the lock (see `processes.start`).
    """
    path = folder / LOCK
    if os.environ.get(HELD_ENV) == os.path.realpath(path):
        yield
        return
    lock = _locked(folder, activity)
    try:
        yield
    finally:
        lock.release()
        # Not before: where the folder was removed meanwhile, the file may be another process's.
        with suppress(OSError, Timeout), FileLock(path, blocking=False, fallback_to_soft=False):
            path.unlink()


def _locked(folder: Path, activity: Activity) -> FileLock:
    """The lock of a folder, which is then held."""
    lock = FileLock(folder / LOCK, poll_interval=_LOOK_S, fallback_to_soft=False)
    told = False

    def look() -> bool:
        nonlocal told
        if not told:
            activity.say(f"Waiting for another process that works in {folder}.")
        told = True
        activity.check()
        return False

    try:
        with disk_errors(folder):
            while not lock.is_locked:
                folder.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # the process that held it has removed the folder
                    lock.acquire(cancel_check=look)
    except OSError as error:  # a network file system without locks
        raise RealmError(f"{folder} cannot be locked: {error.strerror}.") from error
    return lock
