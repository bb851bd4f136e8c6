"""The living corpus above a deployment's base: where its segments are, its current state, and the one that is deployed.

The segments of all bases of one corpus are in `living/NAME` of the data folder. A row decides which state is current.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from realm_core.errors import EngineUnavailable, RealmError
from realm_core.object_store import get_folder
from realm_core.text.language import MODELS_LANGUAGE
from realm_core.text.language_codes import language_code
from webapp.models import CorpusSnapshot, CorpusState, Deployment, IndexGeneration
from webapp.storage.places import living_dir, resolve

if TYPE_CHECKING:
    from realm_core.living.state import LivingState
    from realm_core.living.store import Store
    from realm_core.living.view import CorpusView

log = logging.getLogger(__name__)

_views: dict[int, CorpusView] = {}  # the latest view per index: its files stay open, and its layers are shared
_answering: dict[tuple[int, int, int | None], CorpusView] = {}  # the one of these that answers, by `active_keys`


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
    return [one for one in indexes_of(index.corpus) if one.pk != index.pk]


def indexes_of(corpus: CorpusSnapshot) -> list[IndexGeneration]:
    """All indexes of the corpora of this name, whose edits are in one folder, also those whose files were removed."""
    name = resolve(corpus.path).parent.name
    every = IndexGeneration.every.select_related("corpus", "model")
    return [one for one in every if resolve(one.corpus.path).parent.name == name]


def fetch_files(index: IndexGeneration) -> None:
    """Get the files of an index and of its corpus from the object store, where they are not here. RealmError."""
    for path in (index.path, index.corpus.path):
        get_folder(resolve(path))


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


def view_of(index: IndexGeneration, row: CorpusState | None) -> CorpusView:
    """The texts of the state in a row, as `state_of`. RealmError names the missing or damaged file."""
    view, state = _views.get(index.pk), state_of(index, row)
    if view is None or view.state != state:
        view = _views[index.pk] = store_of(index).view(state)
    return view


def active() -> Deployment:
    """The deployment whose corpus is edited and shown. EngineUnavailable if there is none."""
    deployment = Deployment.active()
    if deployment is None:
        raise EngineUnavailable("Nothing is deployed yet: there is no corpus.", retry_after_s=30)
    return deployment


def current_view() -> CorpusView:
    """The texts of the deployed corpus; EngineUnavailable if they cannot be read."""
    index = active().index
    return opened(index, index.state_now())


def opened(index: IndexGeneration, row: CorpusState | None) -> CorpusView:
    """The texts of a state; EngineUnavailable if they cannot be read."""
    try:
        return view_of(index, row)
    except RealmError as error:  # missing or damaged files are not the client's error
        log.error("The corpus cannot be read: %s", error)
        raise EngineUnavailable("The corpus cannot be read: its files are missing or damaged.") from error


def answering_view() -> CorpusView | None:
    """The texts of the deployed corpus, for pages that also say without them what they know; None: unreadable."""
    keys = Deployment.active_keys()
    if keys is None:
        return None
    view = _views.get(keys[1])
    if view is not None and _answering.get(keys) is view:
        return view
    deployment = Deployment.active()
    if deployment is None:
        return None
    try:
        view = view_of(deployment.index, deployment.index.current_state)
    except RealmError:
        return None
    _answering.clear()
    _answering[keys] = view
    return view


def foreign_language_of(block_id: str, view: CorpusView | None) -> str | None:
    """The code of the language of a block's document, as `answering_view` has it; None if unknown or the models'."""
    if view is None:
        return None
    language = next((view.metadata(row)["language"] for row in view.articles_with(block_id)), "")
    code = language_code(language)
    return code if code not in ("", MODELS_LANGUAGE) else None


def corpus_id(index: IndexGeneration, row: CorpusState | None) -> str:
    """The name of the corpus in answers from this state."""
    edits = f"+{row.state_id}" if row is not None and row.has_edits else ""
    return f"{index.corpus.name}@{index.corpus.snapshot_id}{edits}"


def current_corpus_id() -> str:
    """The name of the deployed corpus in answers."""
    index = active().index
    return corpus_id(index, index.state_now())
