"""Putting a generation's vectors into Milvus, from its files, which stay: `python -m realm_core to-milvus`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from realm_core.errors import RealmError, quoted
from realm_core.index.choice import MilvusServer
from realm_core.index.manifest import MANIFEST_FILE, read_manifest, verified_file
from realm_core.index.milvus import MilvusVectors
from realm_core.index.stored_rows import StoredRows
from realm_core.index.tasks import ToMilvus
from realm_core.runs.activity import Activity
from realm_core.runs.locks import exclusive

TOKEN = "REALM_MILVUS_TOKEN"


def main(task: ToMilvus, activity: Activity) -> None:
    """Fill the collection of the task's index; one that is complete is left as it is."""

    def progress(done: int, total: int) -> None:
        activity.check()
        activity.progress(done, total, "vectors")

    # Not an option: other users of the machine see those.
    vectors, _ = open_vectors(task.index, MilvusServer(task.uri, os.environ.get(TOKEN, "")), progress)
    activity.say(f"Milvus at {task.uri} has all {vectors.rows:,} vectors of the index {vectors.generation}.")
    activity.result({"collection": vectors.collection, "vectors": vectors.rows})


def open_vectors(
    folder: Path, server: MilvusServer, progress: Callable[[int, int], object]
) -> tuple[MilvusVectors, StoredRows]:
    """A generation's vectors in Milvus, filled with what is missing, and on the disk, with their files verified.

    progress: called with (vectors there, all vectors); an error that it raises ends the filling, and nothing is lost.
    `RealmError` for a missing or damaged file; `EngineUnavailable` for a server that fails.
    """
    manifest = read_manifest(folder)
    try:
        for shard in manifest["shards"]:
            verified_file(folder, shard)
        stored, vectors = StoredRows.of(folder, manifest), MilvusVectors(server, manifest)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RealmError(f"{folder / MANIFEST_FILE} does not describe an index: {quoted(error)}.") from None
    if not vectors.is_complete():
        with exclusive(folder.with_name(f".{folder.name}.milvus.lock")):
            if not vectors.is_complete():  # by another process, which held the lock
                vectors.fill(
                    lambda start, stop: stored.at(np.arange(start, stop)).numpy(),
                    lambda done: progress(done, vectors.rows),
                )
    return vectors, stored
