"""Atomic files: atomic writes, published folders, checksums."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from realm_core.errors import CannotStore, RealmError
from realm_core.pace import may_rest

_CHUNK_BYTES = 1 << 20
_SEAL = "checksum"  # the key of a manifest's own checksum
_LONGEST_NAME = 255  # bytes; the limit of common file systems
_SETTLED_NS = 2_000_000_000  # since its last change; the coarsest resolution of file times
# Errors of a place that cannot be written, whatever room there is.
_UNFIT = (errno.EACCES, errno.EROFS, errno.ENOENT, errno.EFBIG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
_LONGEST_LINE = 16 << 20  # characters, far more than any passage
_LARGEST_TEXT_BYTES = 64 << 20  # of a manifest or settings; a longer one could fill the memory


def sha256_of_file(path: Path) -> str:
    """Hex SHA-256 of a file, read in constant memory."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            may_rest()
    return digest.hexdigest()


def checksum(path: Path) -> str:
    """Hex SHA-256 of a file, computed again only after the file has changed."""
    now_ns = time.time_ns()
    status = path.stat()
    if now_ns - max(status.st_mtime_ns, status.st_ctime_ns) < _SETTLED_NS:
        return sha256_of_file(path)  # another change might not change its times
    return _sha256_once(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(maxsize=1024)
def _sha256_once(path: Path, *_status: int) -> str:
    return sha256_of_file(path)


def read_text(path: Path) -> str:
    """The text of a UTF-8 file; `RealmError` names a file that is missing, no text, or too large."""
    with _named_if_unreadable(path):
        if path.stat().st_size > _LARGEST_TEXT_BYTES:
            raise RealmError(f"{path} is larger than {_LARGEST_TEXT_BYTES >> 20} MiB, which no such file is.")
        return path.read_text(encoding="utf-8")


def parse_json(text: str | bytes, place: str = "It") -> Any:
    """The value of a JSON text; `RealmError`, which begins with `place`, if it is invalid or nested too deeply."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise RealmError(f"{place} is not valid JSON: {error.msg} ({where}).") from None
    except ValueError as error:  # also for invalid UTF-8, and for numbers with thousands of digits
        raise RealmError(f"{place} is not valid JSON: {str(error).rstrip('.')}.") from None
    except RecursionError:
        raise RealmError(f"{place} is not valid JSON: its lists or objects are nested too deeply.") from None


def read_json(path: Path) -> Any:
    """The JSON in `path`, without its checksum; `RealmError` names a file that is missing, no JSON, or damaged.

    Older files without a checksum are read as they are.
    """
    value = parse_json(read_text(path), str(path))
    if isinstance(value, dict) and _SEAL in value:
        checksum = value.pop(_SEAL)
        if checksum != _checksum(value):
            raise RealmError(f"{path} is damaged: its checksum is not that of its content.")
    return value


def json_lines(path: Path) -> Iterator[tuple[Any, str]]:
    """The values of a file of JSON lines, each with its place; blank lines are skipped.

    `RealmError` names a file that is missing or no text, or the first line that is no JSON.
    """
    with _named_if_unreadable(path), open(path, encoding="utf-8-sig") as file:
        number = 0
        while line := file.readline(_LONGEST_LINE + 1):
            number += 1
            place = f"{path}, line {number}"
            if len(line) > _LONGEST_LINE:
                raise RealmError(f"{place}: longer than {_LONGEST_LINE >> 20} million characters.")
            if line.strip():
                yield parse_json(line.rstrip(), place), place


@contextmanager
def _named_if_unreadable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise RealmError(f"{path} does not exist.") from None
    except UnicodeDecodeError as error:
        raise RealmError(f"{path} is not UTF-8: {error}.") from None
    except OSError as error:
        raise RealmError(f"{path} cannot be read: {error.strerror}.") from None


def plain_name(name: object) -> str:
    """A file name in a manifest; ValueError for one that leads out of its folder or that is not possible."""
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} is not the name of a file")
    if len(name.encode()) > _LONGEST_NAME:  # opening it would raise another error
        raise ValueError(f"{name!r} is not the name of a file")
    return name


def write_json(path: Path, value: Any, *, sealed: bool = False) -> None:
    """Write `value` atomically: readers see the old file or the new one.

    sealed: with a checksum of its own content, for an object that must not change; `read_json` compares it.
    """
    if sealed:
        value = {**value, _SEAL: _checksum(json.loads(json.dumps(value)))}  # of the parsed form, whose keys are texts
    with replaced(path, by_several=True) as temporary, open(temporary, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
        file.write("\n")


@contextmanager
def replaced(path: Path, *, by_several: bool = False) -> Iterator[Path]:
    """A temporary file to write, which becomes `path` at the end: readers see the old file or the new one, whole.

    by_several: at the same time; the last one's stays. Otherwise what a killed writer left is overwritten.
    """
    own = f".{os.getpid()}-{threading.get_ident()}" if by_several else ""
    temporary = path.with_name(f".{path.name}{own}.tmp")
    try:
        with disk_errors(path):
            yield temporary
            sync(temporary)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)  # every attempt on a full disk would leave one


def _checksum(value: dict[str, Any]) -> str | None:
    """Hex SHA-256 of an object, independent of its layout; None if it is nested too deeply."""
    try:
        return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    except RecursionError:
        return None


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a full or read-only disk, a file size limit, a removed folder, or a file in the place of a folder into a
    `CannotStore` that names the place."""
    try:
        yield
    except Exception as error:
        number = _error_number(error)
        if number in (errno.ENOSPC, errno.EDQUOT):
            raise CannotStore(f"The disk that holds {path} is full; free some space and run this again.") from error
        if number == errno.EEXIST and not path.is_dir():  # a file is in the place of the folder
            number = errno.ENOTDIR
        if number in _UNFIT:
            raise CannotStore(f"{path} cannot be written: {os.strerror(number)}.") from error
        raise


def _error_number(error: Exception) -> int | None:
    """The system's error number; libraries written in Rust (safetensors) only have it in the text."""
    if isinstance(error, OSError):
        return error.errno
    code = re.search(r"\(os error (\d+)\)", str(error))
    return int(code[1]) if code else None


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

    `final` must not exist, because published folders are immutable.
    """
    if final.exists():
        raise RealmError(f"{final} exists already; a published folder is never overwritten.")
    with disk_errors(final):
        sync_folder(temporary)
        os.rename(temporary, final)
        sync(final.parent)


@contextmanager
def new_folder(
    final: Path, temporary: Path | None = None, publish: Callable[[Path, Path], None] = publish_folder
) -> Iterator[Path]:
    """An empty folder to fill, which is published as `final` at the end. What a killed process left there is removed.

    temporary: where it is until then; default: hidden beside `final`.
    """
    temporary = temporary or final.with_name(f".{final.name}.tmp")
    remove_folder(temporary)
    with disk_errors(final):
        temporary.mkdir(parents=True)
    yield temporary
    publish(temporary, final)


def refuse_existing(output: Path) -> None:
    """`RealmError` if what is to be made exists."""
    if output.exists():
        raise RealmError(f"{output} exists already; choose another name.")


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
