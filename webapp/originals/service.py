"""The PDFs that documents were read from, kept so that evidence opens them at its page.

Each upload is one file, `originals/NAME.pdf` in the data folder, and the row of its document names it. A file that no
row names is removed: at once after the edit or purge that replaced it, or by the sweep if that process died.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from django.utils import timezone

from realm_core.errors import RealmError
from realm_core.files import disk_errors, replaced, sha256_of_file
from webapp.models import GONE, Document
from webapp.serving.living import active
from webapp.storage.places import lock_for_removal, originals_dir, portable, resolve

log = logging.getLogger(__name__)

EDIT_TAKES: Final = timedelta(hours=1)  # at most, from the file to the row that names it


def keep(content: bytes) -> str:
    """Write a PDF; its path in the data folder. RealmError if the disk refuses."""
    path = originals_dir() / f"{uuid.uuid4().hex}.pdf"
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as temporary:
        temporary.write_bytes(content)
    return portable(path)


def discard(paths: Iterable[str]) -> None:
    """Remove the kept PDFs among some files that no row names. While a backup is written they are left to the sweep."""
    wanted = {path for path in paths if resolve(path).parent == originals_dir()}
    if not wanted:
        return
    try:
        with lock_for_removal():
            for path in _unnamed(wanted):
                resolve(path).unlink(missing_ok=True)
    except (RealmError, OSError) as error:
        log.warning("Kept PDFs that nothing names any more are removed later: %s", error)


def sweep(now: datetime | None = None) -> list[str]:
    """Remove what edits that died have left; the removed paths. RealmError while a backup is written."""
    before = ((now or timezone.now()) - EDIT_TAKES).timestamp()
    with lock_for_removal():
        old = [path for path in originals_dir().glob("*") if _changed_at(path) < before]
        unnamed = _unnamed({portable(path) for path in old})
        for name in unnamed:
            resolve(name).unlink(missing_ok=True)
    return sorted(unnamed)


def _changed_at(path: Path) -> float:
    """Seconds since the epoch; a file that an edit renames at this moment is new."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return math.inf


def _unnamed(paths: set[str]) -> set[str]:
    return paths - set(Document.objects.filter(original__in=paths).values_list("original", flat=True))


def receipt_files(paths: Iterable[str]) -> list[dict[str, Any]]:
    """Files that a purge removes, as its receipt names them."""
    there = [path for path in sorted(set(paths)) if resolve(path).exists()]
    return [
        {"path": path, "sha256": sha256_of_file(resolve(path)), "successor": None, "successor_sha256": None}
        for path in there
    ]


def find(document_id: str, hidden: Collection[str]) -> tuple[str, bytes] | None:
    """Title and PDF of a document of the deployed corpus; None: there is none, or it is in a hidden collection."""
    rows = Document.objects.filter(index=active().index, document_id=document_id).exclude(collection__in=hidden)
    row = rows.exclude(original="").exclude(status__in=GONE).first()
    if row is None:
        return None
    try:
        return row.title, resolve(row.original).read_bytes()  # at most `LARGEST_FILE_BYTES`
    except FileNotFoundError:  # an edit has replaced it meanwhile
        return None
