"""Dumps of Wikipedia: which is the newest, and fetching it into sources/, with resume and checksum.

    newest ──▶ Dump (name, address, size, SHA-1) ──▶ fetch ──▶ sources/NAME, whole or not at all

What a killed fetch has left lies beside it under a hidden name, and the next one goes on behind it. The layout of the
mirror is that of dumps.wikimedia.org: a folder for each wiki, in it one for each date, in that `dumpstatus.json`.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from realm_core.errors import RealmError, quoted
from realm_core.files import disk_errors, sync
from realm_core.runs.locks import exclusive
from webapp.models import AuditEntry
from webapp.sources.service import SourceFile
from webapp.storage.places import sources_dir

MIRROR: Final = "https://dumps.wikimedia.org"
_TIMEOUT_S: Final = 60.0
_PIECE_BYTES: Final = 1 << 20
_LARGEST_STATUS: Final = 16 << 20  # bytes of a listing
_HEAD_BYTES: Final = 4 << 20  # by which ingesting is measured
_MEASURED_BYTES: Final = 32 << 20  # at most, to see how fast a mirror is
_ATTEMPTS: Final = 5  # without a byte between them
# Jobs of a dump, in the order in which they are looked through: large wikis are written in parts and recombined.
_JOBS: Final = ("articlesmultistreamdumprecombine", "articlesmultistreamdump")
_LANGUAGE: Final = re.compile(r"[a-z]{2,12}(-[a-z]{2,12})*")
_HEADERS: Final = {"User-Agent": "realm-qa (a dump that an operator wants)"}

Progress = Callable[[int, int], None]  # bytes that are there, bytes of the whole


@dataclass(frozen=True)
class Dump:
    """A dump of a wiki's articles. wiki: such as simplewiki. date: YYYYMMDD. sha1: of the file, as the mirror says."""

    wiki: str
    date: str
    name: str
    url: str
    size_bytes: int
    sha1: str


def newest(language: str, *, mirror: str = MIRROR, date: str = "") -> Dump:
    """The newest complete dump of the Wikipedia of a language, or that of a date. RealmError where there is none."""
    if not _LANGUAGE.fullmatch(language):
        raise RealmError(f"{quoted(language)} is no language of a Wikipedia; en, simple and fr are.")
    wiki = language.replace("-", "_") + "wiki"
    base = f"{mirror.rstrip('/')}/{wiki}"
    listing = _read(f"{base}/").decode("utf-8", "replace")
    dates = sorted(set(re.findall(r'href="(\d{8})/?"', listing)), reverse=True)
    for one in [date] if date else dates:
        with suppress(_NotThere):
            found = _complete(wiki, one, base, mirror)
            if found is not None:
                return found
    when = f"of {date}" if date else "that is complete"
    raise RealmError(f"{base}/ has no dump {when} of the articles of {wiki}; it has {', '.join(dates) or 'none'}.")


def fetch(dump: Dump, progress: Progress) -> SourceFile:
    """Put the dump into sources/; one that is there whole already is not fetched again.

    RealmError where it cannot be fetched (what came stays, for the next time), is not what the mirror says it is, or is
    being fetched by another process.
    """
    path = sources_dir() / dump.name
    partial = _partial(path)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    refusal = f"{dump.name} is being fetched by another process; wait until that has ended."
    with exclusive(path.with_name(f".{dump.name}.lock"), refusal), disk_errors(path):
        if not path.exists():
            _complete_file(dump, partial, progress)
            _check(dump, partial)
            os.link(partial, path)  # which, unlike renaming, never takes the place of another
            partial.unlink()
            sync(path.parent)
            AuditEntry.record("source.fetch", dump.name, by=None, bytes=dump.size_bytes, url=dump.url)
    return SourceFile(dump.name, path.stat().st_size)


def there_bytes(dump: Dump) -> int:
    """How much of it has been fetched already."""
    whole = sources_dir() / dump.name
    for path in (whole, _partial(whole)):
        with suppress(OSError):
            return min(dump.size_bytes, path.stat().st_size)
    return 0


def beginning(dump: Dump, seconds: float) -> tuple[bytes, float]:
    """Its first bytes, a few megabytes at most, and the bytes that come in a second, measured for so long.

    Of one that is here already these are the disk's.
    """
    whole, head, came = sources_dir() / dump.name, b"", 0
    began = time.monotonic()
    try:
        with open(whole, "rb") if whole.exists() else _open(dump.url) as source:
            while came < _MEASURED_BYTES and (piece := source.read(_PIECE_BYTES)):
                came += len(piece)
                head += piece[: _HEAD_BYTES - len(head)]
                if time.monotonic() - began > seconds and came >= min(_HEAD_BYTES, dump.size_bytes):
                    break
    except (OSError, http.client.HTTPException) as error:
        raise RealmError(f"{dump.url} cannot be fetched: {error}.") from None
    return head, came / max(1e-6, time.monotonic() - began)


def _partial(path: Path) -> Path:
    """The partial file of a fetch."""
    return path.with_name(f".{path.name}.partial")


class _NotThere(RealmError):
    """The mirror has no such address."""


def _complete(wiki: str, date: str, base: str, mirror: str) -> Dump | None:
    """The dump of a date, None where it is not finished."""
    name = f"{wiki}-{date}-pages-articles-multistream.xml.bz2"
    url = f"{base}/{date}/dumpstatus.json"
    try:
        jobs: dict[str, Any] = json.loads(_read(url))["jobs"]
        for job in _JOBS:
            status = jobs.get(job, {})
            file = status.get("files", {}).get(name)
            if status.get("status") == "done" and file is not None:
                address = mirror.rstrip("/") + str(file["url"])
                return Dump(wiki, date, name, address, int(file["size"]), str(file["sha1"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RealmError(f"{url} is not what a mirror of dumps says of one.") from None
    return None


def _open(url: str, first: int = 0) -> http.client.HTTPResponse:
    headers = {**_HEADERS, **({"Range": f"bytes={first}-"} if first else {})}
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_S
        )
        return response
    except urllib.error.HTTPError as error:
        kind = _NotThere if error.code == 404 else RealmError
        raise kind(f"{url} cannot be fetched: the server answers with the status {error.code}.") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise RealmError(f"{url} cannot be fetched: {getattr(error, 'reason', error)}.") from None


def _read(url: str) -> bytes:
    with _open(url) as response:
        try:
            return response.read(_LARGEST_STATUS)
        except (OSError, http.client.HTTPException) as error:
            raise RealmError(f"{url} cannot be fetched: {error}.") from None


def _complete_file(dump: Dump, partial: Path, progress: Progress) -> None:
    """Append to what is there until it is whole; a connection that breaks off is opened again."""
    failures = 0
    with open(partial, "ab") as file:
        if file.tell() > dump.size_bytes:
            file.truncate(0)
        while (there := file.seek(0, os.SEEK_END)) < dump.size_bytes:
            progress(there, dump.size_bytes)
            problem = _append(dump, file, there, progress)
            failures = failures + 1 if file.tell() == there else 0
            if failures == _ATTEMPTS:
                raise RealmError(f"{problem} What came is kept for the next time.")
        progress(dump.size_bytes, dump.size_bytes)
        file.flush()
        os.fsync(file.fileno())


def _append(dump: Dump, file: Any, there: int, progress: Progress) -> str:
    """Append what one connection gives; why it gave no more, in a sentence."""
    try:
        response = _open(dump.url, there)
    except _NotThere:
        raise
    except RealmError as error:
        return str(error)
    with response:
        if there and response.status != http.HTTPStatus.PARTIAL_CONTENT:  # the mirror begins at the beginning
            file.truncate(0)
            there = file.seek(0)
        try:
            while piece := response.read(_PIECE_BYTES):
                if there + len(piece) > dump.size_bytes:
                    raise RealmError(f"{dump.url} is longer than the {dump.size_bytes:,} bytes that the mirror names.")
                file.write(piece)
                there += len(piece)
                progress(there, dump.size_bytes)
        except (OSError, http.client.HTTPException) as error:
            return f"{dump.url} cannot be fetched: the connection broke off ({error})."
    return f"{dump.url} cannot be fetched: the connection ended early."


def _check(dump: Dump, partial: Path) -> None:
    with open(partial, "rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.sha1(usedforsecurity=False))  # what the mirror publishes
    if digest.hexdigest() != dump.sha1:
        partial.unlink()
        raise RealmError(f"{dump.name} is damaged: its SHA-1 is not the mirror's. It has been removed; fetch it again.")
