"""Finds the snapshot folder of an index: given as `--corpus`, or by the snapshot id in the data folder.

An index records only the id of its snapshot, so that folders may be moved and copied.
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
_ABOVE = 4  # parent folders of an index that are searched; runs/RUN/generations/STEP is 4 below the data folder
_DATA = Path("var")  # the default of REALM_DATA


def corpus_of(index: Path | None, corpus: Path | None) -> Path:
    """The snapshot folder given as `--corpus`, or else the one that the index was built from.

    It is searched for as corpora/NAME/SNAPSHOT in the data folder (REALM_DATA, else ./var) and in the index's parent
    folders; `RealmError` lists them.
    """
    if corpus is not None:
        return corpus
    if index is None:
        raise RealmError("--corpus is required: without an index the snapshot cannot be found.")
    wanted = read_manifest(index).get("snapshot_id")
    try:
        name = plain_name(wanted)
    except ValueError:
        raise RealmError(
            f"{index / 'manifest.json'} does not name its snapshot; give the snapshot's folder as --corpus."
        ) from None
    places = list(_places(index))
    for folder in (snapshot for place in places for snapshot in sorted(place.glob("*/"))):
        if _is_snapshot(folder / name, name):
            return folder / name
    searched = ", ".join(str(place) for place in places) or "the data folder or beside the index: there are no corpora"
    raise RealmError(
        f"The index {index} is of snapshot {name}, which is not in {searched}; give the snapshot's folder as --corpus."
    )


def _places(index: Path) -> Iterator[Path]:
    """Existing folders of corpora: the data folder's first, then those of the index's parents."""
    above = [Path(os.environ.get("REALM_DATA") or _DATA), *index.resolve().parents[:_ABOVE]]
    yield from dict.fromkeys(place for folder in above if (place := folder.resolve() / _CORPORA).is_dir())


def _is_snapshot(folder: Path, snapshot_id: str) -> bool:
    try:
        return Snapshot.open(folder).snapshot_id == snapshot_id
    except RealmError:
        return False
