"""Locks on files: the kernel releases them when the process that holds them ends, however it ends.

They are filelock's where one process holds a file alone. `shared` calls flock itself: filelock's reader-writer lock is
an SQLite database, which `exclusive` of the same file would not see.
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
    """Hold a lock alone. refusal: the sentence of the `RealmError` where it is held already; None waits instead.

    The file stays: removing it would let two processes lock two different files of one name.
    """
    # filelock's substitute for disks without flock would outlive a process that is killed.
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
    """Hold a lock that others may share, but not while one of them holds it alone. refusal: as of `exclusive`."""
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
    """Make a run folder and hold its lock; another process that works there is waited for.

    Nothing is locked where this process was started with the lock (see `processes.start`).
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


# filelock locks these descriptors, but opening them is ours: a process that waits keeps the file open that the holder
# has locked, and so waits until that has ended, though it may remove the folder before.


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
        os.close(lock)  # the holder has removed it; others lock another file by now


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
        return lock_descriptor(lock, blocking=False)
    except OSError as error:  # of a network's disk that knows no locks
        raise RealmError(f"{folder} cannot be locked: {error.strerror}.") from error


def _is_there(lock: int, path: Path) -> bool:
    """Whether what was opened is still what others would open."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.path.samestat(os.fstat(lock), path.stat())
    return False


def _tidy(path: Path) -> None:
    """Remove a lock that nobody holds any more."""
    with suppress(OSError):
        lock = os.open(path, os.O_RDWR)
        try:
            if lock_descriptor(lock, blocking=False) and _is_there(lock, path):
                path.unlink()
        finally:
            os.close(lock)
