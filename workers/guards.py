"""Checks before anything starts: the data folder's lock, the port, free disk space.

Only the standard library is used, because the checks run before the virtual environment exists.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.refusal import TOP, Refusal

HOST = "127.0.0.1"
_FIRST_RUN_BYTES = 500 << 20  # its corpus, index and database, with a margin
_LATER_BYTES = 20 << 20  # lock and log files alone: on a full disk an admin must be able to start it and remove data


def data_folder() -> Path:
    """The folder of everything that is not source: REALM_DATA, or var/ in the checkout."""
    return Path(os.environ.get("REALM_DATA") or TOP / "var").absolute()


def chosen_port() -> int:
    """The web server's port: PORT, or 8000."""
    text = os.environ.get("PORT") or "8000"
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise Refusal(f"PORT must be a number from 1 to 65535, not {text!r}.")
    return int(text)


@contextmanager
def data_lock(data: Path) -> Iterator[None]:
    """Held by the one supervisor of a data folder; the kernel releases it when the process ends, however it ends."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)  # people's questions, sessions and texts
        # Not inherited by children (Python's default), so only this process holds it.
        descriptor = os.open(data / "supervisor.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Refusal(f"The data folder {data} cannot be used: {error.strerror}. REALM_DATA names another.") from None
    with open(descriptor, "r+", encoding="ascii", errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.read(20).strip()
            raise Refusal(
                f"The data folder {data} is in use: `make run` is already running there"
                + (f" (process {holder})" if holder else "")
                + ". Stop it first, or choose another folder: make run REALM_DATA=/another/folder PORT=8001"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def check_port(port: int) -> None:
    """Refuse a port that another program listens on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError:
            raise Refusal(f"Port {port} is reserved for root. Choose one above 1023: make run PORT=8000") from None
        except OSError as error:
            raise Refusal(
                f"Port {port} cannot be used ({error.strerror}). "
                f"Stop the program that uses it or choose another: make run PORT={min(port + 1, 65535)}"
            ) from None


def check_room_for_data(data: Path) -> None:
    """Refuse to start if the disk is too full for the first run, or for any after it."""
    had_one = any((data / "indexes").glob("[!.]*"))
    check_room(data, _LATER_BYTES if had_one else _FIRST_RUN_BYTES)


def check_room(folder: Path, needed_bytes: int) -> None:
    """Refuse to start if a disk has less room."""
    while not folder.exists():
        folder = folder.parent
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise Refusal(
            f"The disk that holds {folder} has {free_bytes >> 20} MiB left, and {needed_bytes >> 20} MiB are needed. "
            "Free some space and run this again."
        )


def preflight() -> None:
    """The fast checks of `make run`, before anything slow."""
    with data_lock(data_folder()):
        check_port(chosen_port())
        check_room_for_data(data_folder())
