"""The living corpus above a deployment's base: where its segments are, and its current state.

The segments of all bases of one corpus are in `living/NAME` of the data folder. A row decides which state is current.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from webapp.models import CorpusState, IndexGeneration
from webapp.storage.places import living_dir, resolve

if TYPE_CHECKING:
    from realm_core.living.state import LivingState
    from realm_core.living.store import Store
    from realm_core.living.view import CorpusView

_views: dict[int, CorpusView] = {}  # the latest view per index: its files stay open, and its layers are shared


def store_of(index: IndexGeneration) -> Store:
    """The store of the edits above an index, the same for all callers, so that open files are shared."""
    return _shared_store(*folders_of(index))


def unshared_store_of(index: IndexGeneration) -> Store:
    """A separate store, which opens and verifies every file again: a deployment must see the current files."""
    return _store(*folders_of(index))


def folders_of(index: IndexGeneration) -> tuple[Path, Path, Path]:
    """The folder of the segments, that of all snapshots, and that of all generations."""
    corpus = resolve(index.corpus.path)
    return living_dir() / corpus.parent.name, corpus.parent.parent, resolve(index.path).parent


def indexes_beside(index: IndexGeneration) -> list[IndexGeneration]:
    """The other indexes whose edits are in the same folder, also those whose files were removed."""
    folder = folders_of(index)[0]
    others = IndexGeneration.every.exclude(pk=index.pk).select_related("corpus", "model")
    return [one for one in others if folders_of(one)[0] == folder]


def current_states(index: IndexGeneration) -> list[LivingState]:
    """The current states above an index and all beside it, read now. RealmError if a row describes none."""
    from realm_core.living.state import LivingState

    rows = CorpusState.objects.filter(index__in=[index, *indexes_beside(index)], is_current=True)
    return [LivingState.from_json(row.state) for row in rows]


def _store(folder: Path, corpora: Path, indexes: Path) -> Store:
    from realm_core.living.store import Store

    return Store(folder, corpora=corpora, indexes=indexes)


_shared_store = lru_cache(maxsize=8)(_store)


def state_of(index: IndexGeneration, row: CorpusState | None) -> LivingState:
    """The state in a row; None: the unchanged base. Reads no file. RealmError if the row describes none."""
    from realm_core.living.state import Base, LivingState

    if row is not None:
        return LivingState.from_json(row.state)
    corpus = resolve(index.corpus.path)
    return LivingState(corpus.parent.name, index.model.block_hash, Base(corpus.name, resolve(index.path).name))


def view_of(index: IndexGeneration, state: LivingState) -> CorpusView:
    """The texts of a state. RealmError names the missing or damaged file."""
    view = _views.get(index.pk)
    if view is None or view.state != state:
        view = _views[index.pk] = store_of(index).view(state)
    return view
