"""File locks: the kernel releases them when the holding process ends, however it ends.

filelock's for one exclusive holder. `shared` calls flock itself, because filelock's reader-writer lock is an SQLite
database, which is independent of `exclusive` on the same file.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout, lock_descriptor

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
    lock = _wait(folder, activity)
    try:
        yield
    finally:
        os.close(lock)
        _tidy(path)


# filelock locks these descriptors, but they are opened here: a waiting process keeps the holder's file open and so
# waits until the holder has ended, even if that removes the folder before.


def _wait(folder: Path, activity: Activity) -> int:
    """A descriptor of the lock, which is then held."""
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
        os.close(lock)  # the holder has removed it; others lock a new file


def _opened(folder: Path) -> int | None:
    """The lock's file; None if the folder was removed just after it was created."""
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
        return lock_descriptor(lock, blocking=False)
    except OSError as error:  # a network file system without locks
        raise RealmError(f"{folder} cannot be locked: {error.strerror}.") from error


def _is_there(lock: int, path: Path) -> bool:
    """Whether the open file is still the one at its path."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.path.samestat(os.fstat(lock), path.stat())
    return False


def _tidy(path: Path) -> None:
    """Remove a lock file that no process holds."""
    with suppress(OSError):
        lock = os.open(path, os.O_RDWR)
        try:
            if lock_descriptor(lock, blocking=False) and _is_there(lock, path):
                path.unlink()
        finally:
            os.close(lock)
