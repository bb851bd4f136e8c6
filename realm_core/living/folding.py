"""Folding: a state's segments and tombstones become a new base, that is a snapshot and its generation.

Nothing is packed or embedded again. A fold that died starts again and keeps complete results. Edits continue meanwhile;
`rebase` moves a later state onto the new base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from torch import Tensor

from realm_core.arrays import open_array, save_array
from realm_core.corpus import tables
from realm_core.errors import RealmError
from realm_core.files import disk_errors, read_json, remove_folder, write_json
from realm_core.index.approximate_build import build_search, end_build
from realm_core.index.choice import search_of
from realm_core.living.editing import Embed, embedding_of, without
from realm_core.living.state import BASE, Base, CorpusState
from realm_core.living.store import FOLDING, Store
from realm_core.living.tasks import Fold
from realm_core.living.view import CorpusView
from realm_core.living.writing import LayerWriter, copy_rows, generation_manifest, vectors_of, write_vectors
from realm_core.model.checkpoint import load_model
from realm_core.object_store import publish, put_folder, remove_published
from realm_core.runs.activity import Activity

# A base's manifest passes these on to the next; the defaults of a first base that only has documents.
_ABOUT: Final = {"source": "documents", "language": "en", "licence": "", "attribution": "", "share": 1.0}


@dataclass(frozen=True)
class Folded:
    """A new base and its folders."""

    base: Base
    snapshot: Path
    generation: Path


def main(task: Fold, activity: Activity) -> None:
    """Fold a state and move the present one onto the new base. The result names both folders, and the state before."""
    store = Store(task.living, corpora=task.corpora, indexes=task.index.parent)
    state, now = CorpusState.load(task.state), CorpusState.load(task.now)
    folded = fold(store, state, activity)
    after = rebase(store, state, folded, now, _embedding(task.model))
    activity.result(
        {
            "snapshot": str(folded.snapshot),
            "generation": str(folded.generation),
            "before": now.id,
            "state": after.to_json(),
        }
    )


def _embedding(model: Path) -> Embed:
    """Loads the model when a block is to be embedded: only if an upgrade packs documents otherwise than before."""

    def embed_blocks(blocks: Sequence[tuple[str, str]]) -> Tensor:
        return embedding_of(load_model(model, only="block"))(blocks)

    return embed_blocks


def fold(store: Store, state: CorpusState, activity: Activity) -> Folded:
    """Publish a base equal to the state, its generation of the same model; an existing one is returned at once."""
    with store.lock(FOLDING):
        _sweep(store)
        view = store.view(state)
        if not view.documents:
            raise RealmError(f"The corpus {state.name} holds no document; there is nothing to fold.")
        if state.base is not None and not state.segments and not state.tombstones:
            return _folded(store, state, state.base)
        base = Base(f"{state.id}f", f"{state.id}f-{state.block_hash}")
        folded = _folded(store, state, base)
        write_json(
            store.folding_file,
            {"snapshot": str(_partial(folded.snapshot)), "generation": str(_partial(folded.generation))},
        )
        if folded.snapshot.exists():
            put_folder(folded.snapshot)
        else:
            _publish_snapshot(view, folded.snapshot, activity)
        if folded.generation.exists():
            put_folder(folded.generation)
        else:
            model_hash = str(view.layers[0].vectors.manifest.get("model_hash", ""))
            _publish_generation(view, folded, model_hash, activity)
        store.folding_file.unlink()
        return folded


def rebase(store: Store, folded_state: CorpusState, folded: Folded, now: CorpusState, embed: Embed) -> CorpusState:
    """The state equal to `now` on the base that `folded_state` was folded into, for the caller to make current.

    now: `folded_state`, or a state that edits have made from it. `RealmError` if it is not, or if documents were purged
    since: then the new base, which may hold them, is removed.
    """
    with store.lock():
        return _rebased(store, folded_state, folded, now, embed)


def _rebased(store: Store, folded_state: CorpusState, folded: Folded, now: CorpusState, embed: Embed) -> CorpusState:
    if now.purges != folded_state.purges:
        if now.base != folded.base:
            remove_published(folded.generation)
            remove_published(folded.snapshot)
        raise RealmError(f"Documents of {now.name} were purged since the fold began; fold the corpus again.")
    if now.base != folded_state.base:
        raise RealmError(f"The corpus state {now.id} does not follow from {folded_state.id}; fold it itself.")
    then, later = store.view(folded_state), store.view(now)
    gone, carried = [np.array([], np.bool_)], list(now.segments)
    for layer in then.layers:
        lived = then.live_articles[then.articles_of_layer(layer)]
        lives = later.live_articles[later.articles_of_layer(layer)] if layer in later.layers else np.zeros_like(lived)
        if (lives & ~lived).any():  # a segment that was removed, and returned with an equal edit
            if layer.name == BASE:
                raise RealmError(f"The corpus state {now.id} does not follow from {folded_state.id}; fold it itself.")
            lives = np.zeros_like(lived)
        elif layer.name in carried:
            carried.remove(layer.name)
        gone.append(lived & ~lives)
    numbers = np.cumsum(then.live_articles) - 1  # the new base has the living documents, in their order
    dying = frozenset(numbers[np.flatnonzero(np.concatenate(gone))].tolist())
    start = CorpusState(now.name, now.block_hash, folded.base, purges=now.purges)
    rebased = without(store, store.view(start), dying, (), embed)
    return replace(
        rebased,
        segments=(*rebased.segments, *carried),
        tombstones={**rebased.tombstones, **{name: now.tombstones[name] for name in carried if name in now.tombstones}},
    )


def _folded(store: Store, state: CorpusState, base: Base) -> Folded:
    return Folded(base, store.corpora / state.name / base.snapshot, store.indexes / base.generation)


def _partial(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.fold")


def _sweep(store: Store) -> None:
    """Remove unfinished files of a killed fold."""
    if not store.folding_file.exists():
        return
    noted = read_json(store.folding_file)
    for place in ("snapshot", "generation"):
        path = Path(str(noted.get(place, ""))) if isinstance(noted, dict) else Path()
        if path.name.startswith(".") and path.name.endswith(".fold"):
            remove_folder(path)
    store.folding_file.unlink()


def _publish_snapshot(view: CorpusView, final: Path, activity: Activity) -> None:
    folder = _partial(final)
    state = view.state
    with disk_errors(final.parent):
        folder.mkdir(parents=True)
        with LayerWriter(folder) as writer:
            for layer in view.layers:
                activity.check()
                articles_A, rows_N = (
                    view.live_articles[view.articles_of_layer(layer)],
                    view.live_rows[view.rows_of_layer(layer)],
                )
                copy_rows(layer, articles_A, rows_N, writer)
                activity.progress(writer.articles, view.documents, "documents", f"{writer.blocks:,} blocks")
        first = view.layers[0].snapshot.manifest
        about: dict[str, Any] = {"name": state.name, **{key: first.get(key, value) for key, value in _ABOUT.items()}}
        about["fingerprint"] = f"fold of {state.id}"
        links = _links(view, folder)
        if links:
            about["links"] = links
        manifest = writer.manifest(final.name, about, *((tables.LINKS_FILE,) if links else ()))
        write_json(folder / tables.MANIFEST_FILE, manifest, sealed=True)
    publish(folder, final)


def _links(view: CorpusView, folder: Path) -> int:
    """Write the links of the base's living blocks, at their new rows; returns their number. Segments have none."""
    layer = view.layers[0]
    links = layer.snapshot.manifest.get("links", 0)
    if layer.name != BASE or not links:
        return 0
    links_M3 = open_array(layer.snapshot.folder / tables.LINKS_FILE, np.int32, (links, 3))
    live = view.live_rows[: len(layer)]
    kept_M3 = links_M3[live[links_M3[:, 0]]]
    kept_M3[:, 0] = (np.cumsum(live) - 1)[kept_M3[:, 0]]
    if len(kept_M3):
        save_array(folder / tables.LINKS_FILE, kept_M3)
    return len(kept_M3)


def _publish_generation(view: CorpusView, folded: Folded, model_hash: str, activity: Activity) -> None:
    folder = _partial(folded.generation)
    rows = [np.flatnonzero(view.live_rows[view.rows_of_layer(layer)]) for layer in view.layers]

    def pieces() -> Any:
        done = 0
        for vectors_RD in vectors_of(view.layers, rows):
            activity.check()
            yield vectors_RD
            done += len(vectors_RD)
            activity.progress(done, view.blocks, "blocks")

    with disk_errors(folded.generation.parent):
        folder.mkdir(parents=True)
        shards = write_vectors(folder, pieces())
    manifest = generation_manifest(
        folded.generation.name,
        folded.snapshot.name,
        view.state.block_hash,
        model_hash,
        view.layers[0].vectors.dimension,
        shards,
    )
    wanted = search_of(view.layers[0].vectors.manifest).wanted if view.layers[0].name == BASE else "auto"
    manifest["search"] = build_search(folder, shards, manifest["dim"], activity, wanted=wanted)
    write_json(folder / "manifest.json", manifest, sealed=True)
    end_build(folder)
    publish(folder, folded.generation)
