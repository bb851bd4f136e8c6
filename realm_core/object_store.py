"""Published folders in an object store, for machines that do not share a data folder.

REALM_STORE names the store: `s3://bucket/prefix`, `file:///folder`, or another address that fsspec knows; REALM_DATA
the data folder of this machine. What is published in its `corpora`, `models` and `indexes` is put into the store
first, and what is missing there is got from it. Without REALM_STORE only the data folder counts.

    models/NAME/UPLOAD/…     its files; UPLOAD is new for each put
    models/NAME/done.json    written last: {"upload": UPLOAD, "files": {path: sha256}, "about": {…}}

Only done.json makes it one: a put that was killed is never read, and of two puts the later counts as a whole. Every
file that is got is compared with its hash before the folder is published here by a rename.

fsspec's driver of S3 (s3fs, botocore) reads the usual AWS variables, AWS_ENDPOINT_URL among them, and repeats what
failed.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError, Stopped
from realm_core.files import disk_errors, plain_name, publish_folder, remove_folder, sha256_of_file, sync_folder
from realm_core.runs.activity import Activity
from realm_core.runs.locks import exclusive

STORE_ENV, DATA_ENV = "REALM_STORE", "REALM_DATA"
PLACES = ("corpora", "models", "indexes")  # of the data folder
_DONE = "done.json"


def check_settings() -> None:
    """`RealmError` if REALM_STORE is no address of a store, or has no data folder beside it; nothing is connected."""
    _address()


def publish(temporary: Path, final: Path) -> None:
    """Put the finished folder `temporary` into the store as `final`, then make it visible here (`publish_folder`)."""
    if final.exists():
        put_folder(final)  # perhaps published before there was a store; below, it is refused
    elif (stored := _stored(final)) is not None:
        stored.put(_files(temporary))
    publish_folder(temporary, final)


def put_folder(folder: Path) -> bool:
    """Put a published folder into the store, unless it is there; whether it was put."""
    stored = _stored(folder)
    if stored is None or stored.done() is not None:
        return False
    stored.put(_files(folder))
    return True


def is_shared(folder: Path) -> bool:
    """Whether a folder of this name belongs into the store, and there is one."""
    return _stored(folder) is not None


def is_published(folder: Path) -> bool:
    """Whether a folder exists here or in the store."""
    return folder.exists() or ((stored := _stored(folder)) is not None and stored.done() is not None)


def get_folder(folder: Path, activity: Activity | None = None) -> Path:
    """The folder itself; got from the store first if it is missing here and there is one.

    Processes that want the same folder wait for the one that gets it. Where the store has none, nothing happens, and
    opening the folder then fails. `RealmError` names what is damaged or cannot be read.
    """
    if folder.exists() or (stored := _stored(folder)) is None:
        return folder
    with disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(folder.with_name(f".{folder.name}.get.lock")):
        if folder.exists() or (record := stored.done()) is None:
            return folder
        if activity is not None:
            activity.say(f"Getting {stored.name} from the store.")
        temporary = folder.with_name(f".{folder.name}.got")
        remove_folder(temporary)  # of one that was killed
        try:
            stored.get(record, temporary, activity)
            publish_folder(temporary, folder)
        except BaseException:
            remove_folder(temporary)
            raise
    return folder


def checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file that the store has of a folder, by its path there; none without a store."""
    stored = _stored(folder)
    record = None if stored is None else stored.done()
    return {} if record is None else dict(record["files"])


def put_file(path: Path, about: Mapping[str, Any]) -> None:
    """Put one file of an unpublished folder into the store, unless it is there. about: what it belongs to."""
    if (stored := _stored(path)) is not None:
        stored.put({path.name: path}, about)


def get_file(path: Path, about: Mapping[str, Any], activity: Activity) -> bool:
    """Get one file that `put_file` has put, with the same `about`; whether it is at `path` now.

    What is damaged in the store is removed there, so that it is made again.
    """
    stored = _stored(path)
    if stored is None or (record := stored.done()) is None or record["about"] != about:
        return False
    temporary = path.with_name(f".{path.name}.got")
    remove_folder(temporary)
    try:
        stored.get(record, temporary, activity)
        with disk_errors(path):
            os.replace(temporary / path.name, path)
    except DamagedObject as error:
        activity.say(f"{error} It is made again.")
        stored.remove()
        return False
    finally:
        remove_folder(temporary)
    return True


def forget(folder: Path) -> None:
    """Remove what the store has of a folder."""
    if (stored := _stored(folder)) is not None:
        stored.remove()


def remove_published(folder: Path) -> None:
    """Remove a folder from the store and here. What other machines have got of it stays there."""
    forget(folder)
    remove_folder(folder)


class DamagedObject(RealmError):
    """An object of the store is missing, or is not what was put."""


@dataclass(frozen=True)
class _Stored:
    """A folder, or an unpublished file, in a store. root: the store's own path. name: the folder's below it."""

    files: Any  # fsspec's AbstractFileSystem
    root: str
    name: str

    def done(self) -> dict[str, Any] | None:
        """The content of done.json; None if it is missing, or half-written (possible on a disk alone)."""
        with self._errors("read"):
            try:
                record = json.loads(self.files.cat_file(self._path(_DONE)))
            except (FileNotFoundError, ValueError):
                return None
        kinds = {"upload": str, "files": dict, "about": dict}
        whole = isinstance(record, dict) and all(isinstance(record.get(key), kind) for key, kind in kinds.items())
        return record if whole else None

    def put(self, paths: Mapping[str, Path], about: Mapping[str, Any] | None = None) -> None:
        """Put files under a new UPLOAD, then done.json; nothing if that says the same already."""
        hashes = {name: sha256_of_file(path) for name, path in paths.items()}
        record = {"files": hashes, "about": dict(about or {})}
        if (there := self.done()) is not None and {**there, **record} == there:
            return
        upload = uuid.uuid4().hex
        with self._errors("written"):
            for name, path in paths.items():
                self.files.put_file(str(path), self._path(upload, name))
            self.files.pipe_file(self._path(_DONE), json.dumps({"upload": upload, **record}, indent=1).encode())

    def get(self, record: Mapping[str, Any], folder: Path, activity: Activity | None) -> None:
        """Get all files into a new folder, and compare their hashes; `DamagedObject` names the first that differs."""
        upload = record["upload"]
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)  # also for a folder without files
        for name, expected in record["files"].items():
            if activity is not None:
                activity.check()
            try:
                path = folder.joinpath(*map(plain_name, name.split("/")))
            except ValueError:
                raise DamagedObject(f"{self._says(_DONE)} is damaged: it names a file that leads elsewhere.") from None
            with disk_errors(folder):
                path.parent.mkdir(parents=True, exist_ok=True)
            with self._errors("read"), disk_errors(folder):
                try:
                    self.files.get_file(self._path(upload, name), str(path))
                except FileNotFoundError:
                    raise DamagedObject(f"{self._says(upload, name)} is missing.") from None
            if sha256_of_file(path) != expected:
                raise DamagedObject(f"{self._says(upload, name)} is damaged: its checksum is not that in {_DONE}.")
        sync_folder(folder)

    def remove(self) -> None:
        """Remove done.json first, so that no half is ever taken for the whole."""
        with self._errors("removed"):
            for path, deep in ((self._path(_DONE), False), (self._path(), True)):
                try:
                    self.files.rm(path, recursive=deep)
                except FileNotFoundError:
                    continue

    def _path(self, *parts: str) -> str:
        return "/".join((self.root, self.name, *parts))

    def _says(self, *parts: str) -> str:
        return f"The object {'/'.join((self.name, *parts))} of the store {os.environ[STORE_ENV]}"

    @contextmanager
    def _errors(self, done: str) -> Iterator[None]:
        """Each driver has errors of its own; all become one sentence with the store and the folder."""
        try:
            yield
        except (RealmError, Stopped):
            raise
        except Exception as error:
            said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            raise RealmError(f"{self._says()} cannot be {done}: {said}.") from error


def _files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def _stored(path: Path) -> _Stored | None:
    """The stored object of a path; None without a store, and outside of the places that it holds."""
    address = _address()
    if address is None:
        return None
    url, data = address
    place = Path(path).absolute().parent.resolve() / path.name
    parts = place.relative_to(data).parts if place.is_relative_to(data) else ()
    if len(parts) < 2 or parts[0] not in PLACES:  # a place itself is no folder of it
        return None
    return _Stored(*_opened(url), place.relative_to(data).as_posix())


def _address() -> tuple[str, Path] | None:
    url, data = (os.environ.get(name, "").strip() for name in (STORE_ENV, DATA_ENV))
    if not url:
        return None
    protocol, separator, place = url.partition("://")
    if not (protocol and separator and place.strip("/")):
        raise RealmError(f"{STORE_ENV} must be an address such as s3://bucket/prefix or file:///folder, not {url!r}.")
    if not data:
        raise RealmError(f"{STORE_ENV} needs {DATA_ENV}, the data folder whose corpora, models and indexes it holds.")
    return url.rstrip("/"), Path(data).resolve()


@cache
def _opened(url: str) -> tuple[Any, str]:
    """The file system of a store and its path there; nothing is connected before the first call."""
    import fsspec  # with s3fs, half a second that only those with a store wait for

    on_disk = {"auto_mkdir": True} if url.startswith("file:") else {}
    try:
        files, root = fsspec.url_to_fs(url, use_listings_cache=False, **on_disk)
    except ImportError:
        raise RealmError(
            f"{STORE_ENV}={url} needs a driver: .venv/bin/python -m pip install -c constraints.txt s3fs"
        ) from None
    except ValueError as error:
        raise RealmError(f"{STORE_ENV}={url} is no store that fsspec knows: {error}.") from None
    return files, root.rstrip("/")
