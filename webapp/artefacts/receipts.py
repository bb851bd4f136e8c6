"""What the receipts of purges say of folders that are removed: their files, each with its SHA-256.

A receipt names the folders of the corpus that still hold what was purged (`webapp/purges`); they go later, one by one.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

from realm_core import object_store
from realm_core.errors import RealmError
from realm_core.files import sha256_of_file
from realm_core.index import manifest
from webapp.models import IndexGeneration, Purge
from webapp.storage.places import portable, resolve

log = logging.getLogger(__name__)


def add_removed(*folders: Path) -> None:
    """Add the files of folders to the receipts that name these; in the transaction by which they are to be removed."""
    paths = {portable(folder) for folder in folders}
    naming = [pk for pk, remaining in Purge.objects.values_list("pk", "remaining") if not paths.isdisjoint(remaining)]
    files_of = cache(_files)
    for purge in Purge.objects.select_for_update().filter(pk__in=naming):
        named = {file["path"] for file in purge.files}  # by a removal that was interrupted
        files = [file for path in purge.remaining if path in paths for file in files_of(path)]
        purge.files += [file for file in files if file["path"] not in named]
        purge.save(update_fields=["files"])


def _files(path: str) -> list[dict[str, Any]]:
    """The files of a corpus or an index as a receipt has them; none where their hashes are not to be had."""
    try:
        hashes = _checksums(path)
    except (RealmError, OSError) as error:
        log.warning("Receipts of purges do not say which files of %s are removed: %s", path, error)
        return []
    return [
        {"path": f"{path}/{name}", "sha256": sha256, "successor": None, "successor_sha256": None}
        for name, sha256 in sorted(hashes.items())
    ]


def _checksums(path: str) -> dict[str, str]:
    """From the folder's manifest, since its files are large; where another machine has it, as the store has them."""
    from realm_core.corpus import store  # loads pyarrow

    folder = resolve(path)
    if not folder.exists():
        return object_store.checksums(folder)
    is_index = IndexGeneration.every.filter(path=path).exists()
    checksums = manifest.checksums(folder) if is_index else store.checksums(folder)
    return checksums | {manifest.MANIFEST_FILE: sha256_of_file(folder / manifest.MANIFEST_FILE)}
