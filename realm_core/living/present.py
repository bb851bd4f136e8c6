"""The corpus that people see, as one snapshot and one generation: what a measurement or a training works on.

An index is of the corpus as it was when it was built. What was edited above it is folded in for the time of an
activity, in its run folder, where nothing else looks. Nothing is embedded again (`publishing.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from realm_core.errors import RealmError
from realm_core.files import remove_folder
from realm_core.index.corpus_of import corpus_of
from realm_core.living.folding import new_base
from realm_core.living.publishing import publish_base, publishing
from realm_core.living.state import Base, LivingState
from realm_core.living.store import Store
from realm_core.living.tasks import COPY
from realm_core.runs.activity import Activity


@dataclass(frozen=True)
class Searched:
    """Folders that belong together: a generation and its snapshot."""

    index: Path
    corpus: Path


@contextmanager
def with_edits(
    index: Path,
    corpus: Path | None,
    state: Path | None,
    living: Path | None,
    run: Path | None,
    activity: Activity,
    *,
    removes: bool = True,
) -> Iterator[Searched]:
    """The index and its corpus, with what was edited above it.

    state: the file of the corpus state (None: the index as it was built). living: the folder of all living corpora.
    The copy in `run` is removed at the end; of the processes of one training only the first one `removes` it. A copy
    that a killed process left is used again.
    """
    snapshot = corpus_of(index, corpus)
    if state is None:
        yield Searched(index, snapshot)
        return
    if living is None or run is None:
        raise RealmError("--state needs --living, the folder of living corpora, and --run, where a copy is made.")
    edited = LivingState.load(state)
    if edited.base != Base(snapshot.name, index.name):
        raise RealmError(f"{state} is no state above the index {index}.")
    if not edited.has_edits:
        yield Searched(index, snapshot)
        return
    copy = run / COPY / index.name
    try:
        view = Store(living / edited.name, corpora=snapshot.parent.parent, indexes=index.parent).view(edited)
        target = Store(copy / "living", corpora=copy / "corpora", indexes=copy / "indexes")
        with publishing(target):
            # Every vector is scored in a measurement, so lists for approximate search would be built for nothing.
            made = publish_base(target, replace(new_base(view), search="exact"), activity)
        activity.say(f"{view.documents:,} documents, {view.blocks:,} blocks, with what was edited above the index.")
        yield Searched(made.generation, made.snapshot)
    finally:
        if removes:
            remove_folder(copy)
