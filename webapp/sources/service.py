"""Files to ingest, in the data folder's sources/: copied there by hand or uploaded."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from django.contrib.auth.models import User

from realm_core.errors import RealmError, quoted
from realm_core.files import disk_errors, sync
from realm_core.settings import FILE
from webapp.models import AuditEntry, CorpusSnapshot, Job, JobKind, Schedule
from webapp.models.job_states import UNFINISHED
from webapp.refusals import Missing
from webapp.storage.places import lock_for_removal, sources_dir

LARGEST_UPLOAD_BYTES = 512 * 2**20  # larger ones are copied there by hand
_LEFT_S = 24 * 3600.0  # after which an incomplete upload is abandoned
_PART = ".part"  # suffix of an upload, whose name starts with a dot; no job may read it


@dataclass(frozen=True)
class SourceFile:
    """A file that an ingest can read."""

    name: str
    size_bytes: int

    @property
    def source(self) -> str:
        """Its kind of source, from the file's name."""
        first = self.name.partition(".")[2]
        return "parquet" if first.endswith("parquet") else "mediawiki" if "xml" in first.split(".") else "jsonl"


def sources() -> list[SourceFile]:
    """The existing files, by name, except those with a name that no job accepts."""
    found = []
    if sources_dir().is_dir():
        for path in sorted(sources_dir().iterdir()):
            with suppress(FileNotFoundError):  # removed a moment ago
                if FILE.may_be_typed(path.name) and path.is_file():
                    found.append(SourceFile(path.name, path.stat().st_size))
    return found


def readers() -> dict[str, Job]:
    """Ingests that are active, or resume by themselves, by the names of the files that they read."""
    jobs = Job.objects.filter(kind=JobKind.INGEST, state__in=UNFINISHED).defer("log")
    return {job.parameters["file"]: job for job in jobs if job.parameters.get("file")}


def read_again() -> dict[str, Schedule]:
    """Schedules that read a file again at each run, by its name."""
    schedules = Schedule.objects.filter(ingest=True)
    made_by = ((CorpusSnapshot.latest_ingest(one.corpus_name), one) for one in schedules)
    return {job.parameters["file"]: one for job, one in made_by if job is not None and job.parameters.get("file")}


def add(name: str, pieces: Iterable[bytes], *, replace: bool = False, by: User | str | None) -> SourceFile:
    """Store a file, complete or not at all. pieces: its content. by: as in the audit trail.

    replace: in the place of one of that name, unless an unfinished ingest reads it.
    RealmError for an invalid name, an empty file, a name that exists and is not to be replaced, and a full disk.
    """
    if not name or not FILE.may_be_typed(name):
        raise RealmError(
            f"{quoted(name)} cannot be the name of a file to ingest: letters, digits, spaces, dots and dashes, "
            "no dot in front, 200 at most."
        )
    folder = sources_dir()
    path, temporary = folder / name, folder / f".{uuid.uuid4().hex}{_PART}"
    with disk_errors(path):
        folder.mkdir(parents=True, exist_ok=True)
        _clear_away()
        try:
            with open(temporary, "xb") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
                size = file.tell()
            if not size:
                raise RealmError(f"{name} is empty.")
            if replaced := replace and path.exists():
                _refuse_read(name)
                os.replace(temporary, path)
            else:
                os.link(temporary, path)  # unlike a rename, never replaces another file
        except FileExistsError:
            raise RealmError(
                f"{name} exists already; give this file another name, or say that it replaces it (replace)."
            ) from None
        finally:
            temporary.unlink(missing_ok=True)
        sync(folder)
    AuditEntry.record("source.add", name, by=by, bytes=size, **({"replaced": True} if replaced else {}))
    return SourceFile(name, size)


def remove(name: str, *, by: User | str | None) -> None:
    """Remove a file. Missing if there is none, RealmError if an unfinished ingest, a schedule or a backup reads it."""
    found = next((one for one in sources() if one.name == name), None)
    if found is None:
        raise Missing(f"There is no file {quoted(name)} to ingest.")
    _refuse_read(name)
    if (schedule := read_again().get(name)) is not None:
        raise RealmError(
            f"{name} is read again by a schedule ({schedule}); remove that first, or replace the file by a newer one."
        )
    path = sources_dir() / name
    with lock_for_removal(), disk_errors(path):
        path.unlink(missing_ok=True)
    AuditEntry.record("source.remove", name, by=by, bytes=found.size_bytes)


def _refuse_read(name: str) -> None:
    """RealmError if an unfinished ingest reads the file."""
    if name in readers():
        raise RealmError(f"{name} is being ingested; stop that job first, or wait until it is done.")


def _clear_away() -> None:
    """Remove what killed processes left of uploads."""
    for path in sources_dir().glob(f".*{_PART}"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _LEFT_S:
                path.unlink()
