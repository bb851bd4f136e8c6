"""Files that appear whole or not at all: atomic writes, published folders, checksums."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError

_CHUNK_BYTES = 1 << 20


def sha256_of_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes, read in constant memory."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def read_json(path: Path) -> Any:
    """The JSON in `path`; `RealmError` names the file when it is missing or is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RealmError(f"{path} does not exist.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RealmError(f"{path} is not valid JSON: {error}.") from None


def write_json(path: Path, value: Any) -> None:
    """Write `value` so that a reader sees the old file or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with disk_errors(path), open(temporary, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a full or read-only disk, and a folder that has gone, into a `RealmError` that names the place."""
    try:
        yield
    except Exception as error:
        number = _error_number(error)
        if number in (errno.ENOSPC, errno.EDQUOT):
            raise RealmError(f"The disk that holds {path} is full; free some space and run this again.") from error
        if number in (errno.EACCES, errno.EROFS, errno.ENOENT):
            raise RealmError(f"{path} cannot be written: {os.strerror(number)}.") from error
        raise


def _error_number(error: Exception) -> int | None:
    """The system's number of an error, which libraries written in Rust (safetensors) only tell in their text."""
    if isinstance(error, OSError):
        return error.errno
    told = re.search(r"\(os error (\d+)\)", str(error))
    return int(told[1]) if told else None


def sync(path: Path) -> None:
    """Flush one file, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Flush every file of `folder`, and the folder itself, to the disk."""
    for path in [*(p for p in folder.rglob("*") if p.is_file()), folder]:
        sync(path)


def publish_folder(temporary: Path, final: Path) -> None:
    """Make the finished folder `temporary` visible as `final`: sync, rename, sync the parent.

    `final` must not exist: published things are immutable.
    """
    if final.exists():
        raise RealmError(f"{final} exists already; a published folder is never overwritten.")
    with disk_errors(final):
        sync_folder(temporary)
        os.rename(temporary, final)
        sync(final.parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder if it is there."""
    shutil.rmtree(folder, ignore_errors=True)
