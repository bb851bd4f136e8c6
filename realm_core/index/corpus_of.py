"""Which snapshot folder is an index of? Given as `--corpus`, or found where snapshots are kept.

An index names its snapshot by id alone, so that folders may be moved and copied; the search costs a few looks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import plain_name
from realm_core.index.manifest import read_manifest

_CORPORA = "corpora"  # the folder of all snapshots: corpora/NAME/SNAPSHOT
_ABOVE = 4  # folders above an index that are looked in; 4 lead from runs/RUN/generations/STEP to the data folder
_DATA = Path("var")  # the data folder, where REALM_DATA names no other


def corpus_of(index: Path | None, corpus: Path | None) -> Path:
    """The snapshot folder that `--corpus` names, or else the one that the index was built from.

    Looked for as corpora/NAME/SNAPSHOT in the data folder (REALM_DATA, else ./var) and in the folders above the index;
    `RealmError` says where.
    """
    if corpus is not None:
        return corpus
    if index is None:
        raise RealmError("--corpus is needed, a snapshot: there is no index to find it by.")
    wanted = read_manifest(index).get("snapshot_id")
    try:
        name = plain_name(wanted)
    except ValueError:
        raise RealmError(
            f"{index / 'manifest.json'} does not say which snapshot it is of; name it by --corpus."
        ) from None
    places = list(_places(index))
    for folder in (snapshot for place in places for snapshot in sorted(place.glob("*/"))):
        if _is_snapshot(folder / name, name):
            return folder / name
    looked = ", ".join(str(place) for place in places) or "the data folder or beside the index: there are no corpora"
    raise RealmError(f"The index {index} is of snapshot {name}, which is not in {looked}; name its folder by --corpus.")


def _places(index: Path) -> Iterator[Path]:
    """Folders of corpora that exist, the data folder's first, then from the index upwards."""
    above = [Path(os.environ.get("REALM_DATA") or _DATA), *index.resolve().parents[:_ABOVE]]
    yield from dict.fromkeys(place for folder in above if (place := folder.resolve() / _CORPORA).is_dir())


def _is_snapshot(folder: Path, snapshot_id: str) -> bool:
    """Whether a sound snapshot of that id is there; a folder's name alone proves nothing."""
    try:
        return Snapshot.open(folder).snapshot_id == snapshot_id
    except RealmError:
        return False
