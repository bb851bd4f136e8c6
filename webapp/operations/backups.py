"""Backups: one tar file with the records as JSON lines and every file of the data folder that they refer to.

    about.json       the migrations of the rows, and the list of files
    records.jsonl    all rows, portable between SQLite and PostgreSQL
    data/…           corpora, models, indexes, edited documents, question sets, span sets, predictions; the secret key;
                     and, unless they are left out, the files to ingest
    checksums.json   the SHA-256 of each of these files

The rows are read first, in one snapshot; the files that they name never change, and removals wait meanwhile, so
nothing else has to stop. Files outside the data folder and run folders (logs, checkpoints) are left out.
"""

from __future__ import annotations

import contextlib
import filecmp
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.core import serializers
from django.core.management import call_command
from django.core.serializers.base import DeserializationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db import DatabaseError, connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Model

from realm_core.errors import RealmError
from realm_core.files import disk_errors, parse_json, remove_folder
from webapp.models import (
    AuditEntry,
    CorpusSnapshot,
    CorpusState,
    Document,
    Evaluation,
    IndexGeneration,
    Job,
    ModelVersion,
    QuestionSet,
    SpanSet,
)
from webapp.models.process import Process
from webapp.serving.living import folders_of
from webapp.sources.service import SourceFile, sources
from webapp.storage.places import keep_files, lock_for_removal, portable, sources_dir

_PATHS: Final = (
    *((CorpusSnapshot, "path"), (ModelVersion, "path"), (IndexGeneration, "path")),
    *((QuestionSet, "path"), (SpanSet, "path"), (Evaluation, "predictions"), (Document, "original")),
)
_KEY: Final = "secret_key"
_APPS: Final = ("auth", "sessions", "webapp", "admin")
_ABOUT, _RECORDS, _DATA, _CHECKSUMS = "about.json", "records.jsonl", "data", "checksums.json"
_BEFORE: Final = "before-restore"  # folder in the data folder
_WRITING, _RESTORING = ".backup-", ".restore-"  # what is there meanwhile begins with these


@dataclass(frozen=True)
class WrittenBackup:
    """What a backup has. outside: the files that it leaves out because they lie outside the data folder.

    sources: the files to ingest that it has.
    """

    outside: list[str]
    sources: list[SourceFile]


def back_up(target: Path, *, with_sources: bool = True) -> WrittenBackup:
    """Write a backup to `target`, complete or not at all. with_sources: with the files to ingest.

    RealmError if a file that a row names is missing, or `target` cannot be written.
    """
    data = Path(settings.REALM_DATA)
    temporary = target.with_name(f"{_WRITING}{target.name}.{os.getpid()}.tmp")
    try:
        with (
            keep_files(),
            tempfile.TemporaryDirectory(dir=data, prefix=_WRITING) as folder,
            open(temporary, "xb") as file,
        ):
            temporary.chmod(0o600)  # it holds the secret key and people's questions
            with _one_instant():
                _write_records(Path(folder, _RECORDS))
                named = {path for record, field in _PATHS for path in _values(record, field) if path}
                named |= _segments()
            inside = sorted(path for path in named if not Path(path).is_absolute())
            files = sources() if with_sources else []
            inside += [portable(sources_dir() / one.name) for one in files]
            if (data / _KEY).exists():
                inside.append(_KEY)
            about = {"migrations": _migrations(), "paths": inside, "checksums": True}
            Path(folder, _ABOUT).write_text(json.dumps(about), encoding="utf-8")
            # Links are followed: a backup holds only files and folders.
            checksums: dict[str, str] = {}
            with tarfile.open(fileobj=file, mode="w", dereference=True) as archive:
                for name in (_ABOUT, _RECORDS):
                    _pack(archive, Path(folder, name), name, checksums)
                for path in inside:
                    if not (data / path).exists():
                        raise RealmError(f"{data / path}, which belongs to the backup, does not exist.")
                    _pack(archive, data / path, f"{_DATA}/{path}", checksums)
                Path(folder, _CHECKSUMS).write_text(json.dumps(checksums), encoding="utf-8")
                archive.add(Path(folder, _CHECKSUMS), _CHECKSUMS)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise RealmError(f"The backup cannot be written: {error}.") from None
    finally:
        temporary.unlink(missing_ok=True)
    AuditEntry.record("backup", target.name, by=None)
    return WrittenBackup(sorted(named - set(inside)), files)


def restore(source: Path) -> list[Path]:
    """Restore a backup into an empty database.

    The rows become visible after the files exist, so no row ever names a missing file. An existing file or folder of
    the same name stays if it has every file of the backup unchanged; otherwise it is moved aside, and its new place is
    returned. The secret key becomes the backup's. RealmError if the database is not empty or has other migrations, or
    if the file is no backup.
    """
    if any(record._default_manager.exists() for record in (User, Job, CorpusSnapshot, ModelVersion)):
        raise RealmError(
            "The database is not empty; restore into a new one, whose tables manage.py migrate has made. "
            f"This one is {_database()}."
        )
    data = Path(settings.REALM_DATA)
    aside: list[Path] = []
    try:
        with keep_files(), tempfile.TemporaryDirectory(dir=data, prefix=_RESTORING) as folder:
            migrations, paths = unpack(source, Path(folder))
            _refuse_other_version(source, migrations)
            with transaction.atomic():  # if rows cannot be restored, no file is moved
                call_command("loaddata", f"{folder}/{_RECORDS}", verbosity=0)
                for path in paths:
                    saved, place = Path(folder, _DATA, path), data / path
                    if place.exists() and _has_all_of(saved, place):
                        continue
                    if place.exists() and path != _KEY:
                        aside.append(_move_aside(data, path))
                    place.parent.mkdir(parents=True, exist_ok=True)
                    os.replace(saved, place)
    except (OSError, TypeError, ValueError, DeserializationError, DatabaseError) as error:
        raise RealmError(f"{source} cannot be restored: {error}") from None
    AuditEntry.record("restore", source.name, by=None)
    return aside


def clear_away() -> list[str]:
    """Remove what killed backups and restores have left in the data folder: it holds people's questions; the names.

    RealmError while a backup is written or restored.
    """
    data = Path(settings.REALM_DATA)
    with lock_for_removal():
        left = sorted(path for prefix in (_WRITING, _RESTORING) for path in data.glob(f"{prefix}*"))
        for path in left:
            with disk_errors(path):
                remove_folder(path) if path.is_dir() else path.unlink(missing_ok=True)
    return [path.name for path in left]


def _refuse_other_version(source: Path, migrations: list[str]) -> None:
    """RealmError, with the way to the version that made the backup, unless it is this one."""
    own = _migrations()
    if migrations == own:
        return
    if set(migrations) - set(own):
        raise RealmError(f"{source} is of a newer version; restore it with the one that made it.")
    following = min(set(own) - set(migrations))
    added = f"git log -1 --format=%h --diff-filter=A -- webapp/migrations/{following}.py"
    raise RealmError(
        f"{source} is of an earlier version, before {following}. Restore it with that one, then upgrade: "
        f"git checkout $({added})~1"
    )


def unpack(source: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Unpack a backup into `folder`; returns its migrations and the places of its files in the data folder.

    RealmError if it is no backup, a file is not as it was backed up, or a path leads out of the folder or the data
    folder.
    """
    found: dict[str, str] = {}
    try:
        # Backups are not compressed: the content is never larger than the file.
        with tarfile.open(source, mode="r:") as archive:
            for member in archive:
                _lay_out(archive, member, folder, found)
        about = parse_json((folder / _ABOUT).read_bytes(), _ABOUT)
        migrations, paths = about["migrations"], about["paths"]
        if not all(isinstance(path, str) and _leads_inside(path) for path in paths):
            raise ValueError("it names files outside of the data folder")
        needed = (_RECORDS, *(f"{_DATA}/{path}" for path in paths))
        if missing := [path for path in needed if not (folder / path).exists()]:
            raise ValueError(f"it lacks {missing[0]}")
        if about.get("checksums"):  # backups of earlier versions have none
            _compare(dict(parse_json((folder / _CHECKSUMS).read_bytes(), _CHECKSUMS)), found)
    except (
        tarfile.TarError,
        OSError,
        EOFError,
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        RealmError,
    ) as error:
        raise RealmError(f"{source} cannot be restored: {str(error).rstrip('.')}.") from None
    return migrations, paths


class _Hashed:
    """A file that is read once, from its start to its end, and the SHA-256 of what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        part = self._file.read(size)
        self._hash.update(part)
        return part

    def checksum(self) -> str:
        return self._hash.hexdigest()


def _pack(archive: tarfile.TarFile, place: Path, name: str, checksums: dict[str, str]) -> None:
    """Add a file, or a folder with all that is in it, under `name`; notes the checksums of the files."""
    if place.is_dir():
        archive.add(place, name, recursive=False)
        for inner in sorted(place.iterdir()):
            _pack(archive, inner, f"{name}/{inner.name}", checksums)
        return
    with open(place, "rb") as file:
        hashed = _Hashed(file)
        archive.addfile(archive.gettarinfo(arcname=name, fileobj=file), hashed)  # of this file, if another replaces it
    checksums[name] = hashed.checksum()


def _compare(expected: dict[str, str], found: dict[str, str]) -> None:
    """ValueError that names a file which is not as it was backed up."""
    others = found.items() - {(_CHECKSUMS, found[_CHECKSUMS])}
    if damaged := sorted(name for name, _ in expected.items() ^ others):
        raise ValueError(f"{damaged[0]} is damaged, its checksum is another one; take an earlier backup")


def _lay_out(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, found: dict[str, str]) -> None:
    """Extract one file or folder below `folder`, writable for the owner, otherwise with its old permissions; notes the
    file's checksum.

    Not by `extractall`, whose filters exist only from Python 3.11.4 on.
    """
    if member.issparse() or not (member.isreg() or member.isdir()):
        raise ValueError(f"{member.name!r} is neither a plain file nor a folder")
    if not _leads_inside(member.name):
        raise ValueError(f"{member.name!r} leads out of the backup")
    place = folder / member.name
    if member.isdir():
        place.mkdir(parents=True, exist_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    content = archive.extractfile(member)
    assert content is not None  # it is a plain file
    with content, open(place, "wb") as file:
        hashed = _Hashed(content)
        shutil.copyfileobj(hashed, file)
    found[member.name] = hashed.checksum()
    place.chmod(member.mode & 0o644 | 0o600)


def _leads_inside(path: str) -> bool:
    """Whether a path is relative and inside a folder, as in records."""
    parts = PurePosixPath(path).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\0" not in path


def _has_all_of(saved: Path, place: Path) -> bool:
    """Whether every file of `saved`, or that one file, exists at `place` with the same bytes."""
    files = [path for path in (saved, *saved.rglob("*")) if path.is_file()]
    there = [place / path.relative_to(saved) for path in files]
    return all(
        other.is_file() and filecmp.cmp(path, other, shallow=False) for path, other in zip(files, there, strict=True)
    )


def _move_aside(data: Path, path: str) -> Path:
    """Rename what exists at `path` of the data folder; returns its new place."""
    number = 1
    while (aside := data / _BEFORE / str(number) / path).exists():
        number += 1
    aside.parent.mkdir(parents=True, exist_ok=True)
    os.replace(data / path, aside)
    return aside


class _Exact(DjangoJSONEncoder):
    """Times with microseconds: Django's own encoder truncates them to milliseconds, and pages would differ."""

    def default(self, value: Any) -> Any:
        return value.isoformat() if isinstance(value, datetime) else super().default(value)


def _write_records(target: Path) -> None:
    """Every row, in an order in which they can be restored, except signs of life, which processes renew."""
    kinds = serializers.sort_dependencies([(apps.get_app_config(name), None) for name in _APPS])
    kept = [kind for kind in kinds if kind is not Permission and not issubclass(kind, Process)]
    rows = (row for kind in kept for row in kind._base_manager.order_by("pk").iterator())
    with open(target, "w", encoding="utf-8") as file:
        serializers.serialize("jsonl", rows, stream=file, use_natural_foreign_keys=True, cls=_Exact)


def _values(record: type[Model], field: str) -> Iterator[str]:
    return record._default_manager.values_list(field, flat=True).iterator()


def _segments() -> set[str]:
    """The folders of the segments of all current states, and of those of earlier states that are there.

    Kept answers were read from earlier states; the sweep removes what none of them needs.
    """
    from realm_core.living.state import LivingState

    needed: set[Path] = set()
    earlier: set[Path] = set()
    for row in CorpusState.objects.select_related("index__corpus").iterator():
        is_answering = row.is_current and row.index.removed_at is None and row.index.corpus.removed_at is None
        folder = folders_of(row.index)[0] / "segments"
        places = needed if is_answering else earlier
        places |= {folder / name for name in LivingState.from_json(row.state).segments}
    return {portable(place) for place in needed | {place for place in earlier if place.is_dir()}}


def _database() -> str:
    """Where the records are, and how to begin a new one."""
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"{name}: stop all that uses it and move it away, with the files {Path(name).name}-wal and -shm"
    return f"“{name}” of PostgreSQL"


def _migrations() -> list[str]:
    """The migrations of this project that the database has."""
    applied = MigrationRecorder(connection).applied_migrations()
    return sorted(name for app, name in applied if app == "webapp")


@contextlib.contextmanager
def _one_instant() -> Iterator[None]:
    """A transaction that reads one snapshot of the database and blocks no writer."""
    if connection.vendor == "sqlite":
        connection.ensure_connection()  # connecting reads the mode
        mode, connection.transaction_mode = connection.transaction_mode, "DEFERRED"  # type: ignore[attr-defined]
        try:
            with transaction.atomic():
                yield
        finally:
            connection.transaction_mode = mode  # type: ignore[attr-defined]
    else:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield
