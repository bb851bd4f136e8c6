"""Folding: a state's segments and tombstones become a new base, that is a snapshot and its generation.

Nothing is packed or embedded again (`publishing.py`). A fold that died starts again and keeps complete results. Edits
continue meanwhile; `rebase` moves a later state onto the new base.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from realm_core.corpus.store import remove_snapshot
from realm_core.errors import RealmError
from realm_core.index.choice import search_of
from realm_core.living.editing import Embed, embedding_in, without
from realm_core.living.publishing import BasePart, NewBase, PublishedBase, keep_words, publish_base, publishing
from realm_core.living.state import BASE, LivingState, folded_base
from realm_core.living.store import Store
from realm_core.living.tasks import Fold
from realm_core.living.view import CorpusView
from realm_core.object_store import remove_published
from realm_core.runs.activity import Activity

# A base's manifest passes these on to the next; the defaults of a first base that only has documents.
_ABOUT: Final = {"source": "documents", "language": "en", "licence": "", "attribution": "", "share": 1.0}


def main(task: Fold, activity: Activity) -> None:
    """Fold a state and move the present one onto the new base. The result names both folders, and the state before."""
    store = Store(task.living, corpora=task.corpora, indexes=task.index.parent)
    state, now = LivingState.load(task.state), LivingState.load(task.now)
    folded = fold(store, state, activity)
    after = rebase(store, state, folded, now, embedding_in(task.model))
    activity.result(
        {
            "snapshot": str(folded.snapshot),
            "generation": str(folded.generation),
            "before": now.id,
            "state": after.to_json(),
        }
    )


def fold(store: Store, state: LivingState, activity: Activity) -> PublishedBase:
    """Publish a base equal to the state, its generation of the same model; an existing one is returned at once."""
    with publishing(store):
        view = store.view(state)
        if not view.documents:
            raise RealmError(f"The corpus {state.name} holds no document; there is nothing to fold.")
        if state.base is not None and not state.has_edits:
            return PublishedBase.in_store(store, state.name, state.base)
        new = new_base(view)
        made = publish_base(store, new, activity)
        keep_words(new, made, activity)
        return made


def new_base(view: CorpusView) -> NewBase:
    """The base that equals a state, which is to be published."""
    state, first = view.state, view.layers[0]
    about = {"name": state.name, **{key: first.snapshot.manifest.get(key, value) for key, value in _ABOUT.items()}}
    about["fingerprint"] = f"fold of {state.id}"
    wanted = search_of(first.vectors.manifest).wanted if first.name == BASE else "auto"
    return NewBase(folded_base(state), [BasePart.whole(view)], about, wanted)


def rebase(
    store: Store, folded_state: LivingState, folded: PublishedBase, now: LivingState, embed: Embed
) -> LivingState:
    """The state equal to `now` on the base that `folded_state` was folded into, for the caller to make current.

    now: `folded_state`, or a state that edits have made from it. `RealmError` if it is not, or if documents were purged
    or restored since: then the new base, which may hold them, or has them elsewhere, is removed.
    """
    with store.lock():
        return _rebased(store, folded_state, folded, now, embed)


def _rebased(
    store: Store, folded_state: LivingState, folded: PublishedBase, now: LivingState, embed: Embed
) -> LivingState:
    if now.purges != folded_state.purges:
        raise _outdated(now, folded, "purged")
    if now.base != folded_state.base:
        raise RealmError(f"The corpus state {now.id} does not follow from {folded_state.id}; fold it itself.")
    then, later = store.view(folded_state), store.view(now)
    gone, carried = [np.array([], np.bool_)], list(now.segments)
    for layer in then.layers:
        lived = then.live_articles[then.articles_of_layer(layer)]
        lives = later.live_articles[later.articles_of_layer(layer)] if layer in later.layers else np.zeros_like(lived)
        if (lives & ~lived).any():  # a segment of which documents returned with an equal edit, or were restored
            if layer.name == BASE:
                raise _outdated(now, folded, "restored")
            lives = np.zeros_like(lived)
        elif layer.name in carried:
            carried.remove(layer.name)
        gone.append(lived & ~lives)
    if tuple(carried) != now.segments[len(now.segments) - len(carried) :]:  # it would not be in its place
        raise _outdated(now, folded, "restored")
    numbers = np.cumsum(then.live_articles) - 1  # the new base has the living documents, in their order
    dying = frozenset(numbers[np.flatnonzero(np.concatenate(gone))].tolist())
    start = LivingState(now.name, now.block_hash, folded.base, purges=now.purges)
    rebased = without(store, store.view(start), dying, (), embed)
    return replace(
        rebased,
        segments=(*rebased.segments, *carried),
        tombstones={**rebased.tombstones, **{name: now.tombstones[name] for name in carried if name in now.tombstones}},
    )


def _outdated(now: LivingState, folded: PublishedBase, what: str) -> RealmError:
    """The error of a fold that came too late; its base, which may hold what was purged, is removed."""
    if now.base != folded.base:
        remove_published(folded.generation)
        remove_snapshot(folded.snapshot)
    return RealmError(f"Documents of {now.name} were {what} since the fold began; fold the corpus again.")
