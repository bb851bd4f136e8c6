"""Folders of what is computed from something else, once: made again where they are missing, damaged or outdated."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError
from realm_core.files import disk_errors, new_folder, read_json, remove_folder, sha256_of_file, write_json
from realm_core.runs.locks import exclusive

_MANIFEST_FILE = "manifest.json"  # the identity, and the checksums of the other files

log = logging.getLogger(__name__)


def derive_folder(folder: Path, identity: Mapping[str, Any], make: Callable[[Path], object]) -> None:
    """Have `make` fill a folder that becomes `folder`, unless that has this identity and whole files.

    Of several processes one makes it, and the others wait. `CannotStore` if the disk takes none.
    """
    try:
        _verify(folder, identity)
        return
    except RealmError as unfit:
        if folder.exists():
            log.warning("%s It is made again.", unfit)
    with disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(folder.with_name(f"{folder.name}.lock")):
        try:
            _verify(folder, identity)  # another process has made it meanwhile
        except RealmError:
            with disk_errors(folder), new_folder(folder, folder.with_name(f"{folder.name}.tmp")) as temporary:
                make(temporary)
                files = {path.name: sha256_of_file(path) for path in sorted(temporary.iterdir())}
                write_json(temporary / _MANIFEST_FILE, {**identity, "files": files}, sealed=True)
                remove_folder(folder)


def _verify(folder: Path, identity: Mapping[str, Any]) -> None:
    """`RealmError` if a file is missing, damaged, or of something else."""
    manifest = read_json(folder / _MANIFEST_FILE)
    files = manifest.pop("files", {}) if isinstance(manifest, dict) else {}
    if manifest != identity:
        raise RealmError(f"{folder} was made of something else, or by another version.")
    for name, expected in files.items():
        if not (folder / name).exists() or sha256_of_file(folder / name) != expected:
            raise RealmError(f"{folder / name} is missing or damaged.")
