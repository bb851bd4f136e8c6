"""Purging: documents that are truly forgotten, with a receipt.

    removed by an edit → segments that hold them copied without them → (base folded) → receipt noted
    → new state committed → old files removed

A purge that died before the commit has not happened; behind it, `finish_purge` removes what is left. Which of the two
it is, the number of purges in the current states tells. Text that another document has word for word, under the same
title, is that document's and stays with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from realm_core.errors import RealmError
from realm_core.files import disk_errors, read_json, sha256_of_file, write_json
from realm_core.living.documents import Changes
from realm_core.living.editing import Embed, edit_locked
from realm_core.living.layer import Layer
from realm_core.living.state import BASE, LivingState
from realm_core.living.store import FOLDING, Store
from realm_core.living.writing import copy_of_segment, segment_id
from realm_core.object_store import remove_published


@dataclass(frozen=True)
class PurgedFile:
    """A file of a folder that held what was purged. successor: its replacement, None if it has none."""

    path: str
    sha256: str
    successor: str | None
    successor_sha256: str | None


@dataclass(frozen=True)
class Receipt:
    """The receipt of a purge. blocks: how many rows of blocks the documents had in all files, in all their versions.

    removed: folders that are no more. remaining: folders of bases that still hold the documents.
    """

    documents: tuple[str, ...]
    blocks: int
    files: tuple[PurgedFile, ...]
    removed: tuple[str, ...]
    remaining: tuple[str, ...]
    state_before: str
    state_after: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Receipt:
        """The receipt of what `to_json` gave; KeyError or TypeError for anything else."""
        files = tuple(PurgedFile(**file) for file in data["files"])
        lists = {key: tuple(data[key]) for key in ("documents", "removed", "remaining")}
        return cls(**{**data, **lists, "files": files})


class NotHeld(RealmError):
    """No file holds a document that is to be purged."""


def purge(
    store: Store,
    state: LivingState,
    ids: Collection[str],
    embed: Embed,
    *,
    others: Sequence[tuple[Store, LivingState]] = (),
    commit: Callable[[LivingState, Receipt, Sequence[LivingState]], object],
    check: Callable[[], object] | None = None,
) -> tuple[LivingState, Receipt]:
    """Forget documents, those that were removed or changed earlier included; `state` is the current one.

    The receipt names the bases that hold them as remaining, snapshot and generation: a fold replaces these.

    others: states of other bases with edits in the same folder, each with its store. They are rewritten, too.
    check: called first, with the locks of the store held; to raise where one of these states is current no more.
    commit: makes the new state and the successors of `others`, in their order, the current ones, before old files are
    removed; the locks of the store are held meanwhile. Any other state that names a segment which held the documents
    cannot be opened any more. `NotHeld` where no file has any of them.
    """
    wanted = frozenset(ids)
    with store.lock(FOLDING), store.lock():
        if check is not None:
            check()
        current = (state, *(other for _, other in others))
        interrupted = _finished(store, current)
        held = _Held.of(store, state, others, wanted)
        if not held.segments and not held.bases:
            if interrupted is not None and interrupted.documents == tuple(sorted(wanted)):
                return state, interrupted
            raise NotHeld(f"No file of the corpus {state.name} holds {', '.join(map(repr, sorted(wanted)))}.")
        purges = max(one.purges for one in current) + 1
        successors: dict[Path, Path] = {}
        after_others = [_rewritten(own, other, wanted, held, embed, purges, successors) for own, other in others]
        after = _rewritten(store, state, wanted, held, embed, purges, successors)
        after = replace(after, purges=purges)
        receipt = Receipt(
            documents=tuple(sorted(wanted)),
            blocks=held.blocks,
            files=tuple(file for folder in held.segments for file in _files(folder, successors.get(folder))),
            removed=tuple(map(str, held.segments)),
            remaining=tuple(map(str, held.bases)),
            state_before=state.id,
            state_after=after.id,
        )
        write_json(_journal(store), {"purges": purges, "receipt": receipt.to_json()}, sealed=True)
        commit(after, receipt, after_others)
        _finished(store, (after, *after_others))
        return after, receipt


def finish_purge(store: Store, current: Callable[[], Sequence[LivingState]]) -> Receipt | None:
    """Complete an interrupted purge by removing its files; its receipt, None if there is none or it was not committed.

    current: reads the current states of all bases with edits in the store's folder; called with the locks held. To be
    called before a service opens one; `purge` does so, too.
    """
    if not _journal(store).exists():  # so that nothing waits for a fold that is under way
        return None
    with store.lock(FOLDING), store.lock():
        return _finished(store, current())


def _journal(store: Store) -> Path:
    return store.folder / "purging.json"


def _finished(store: Store, states: Sequence[LivingState]) -> Receipt | None:
    journal = _journal(store)
    if not journal.exists():
        return None
    try:
        noted = read_json(journal)
        receipt = Receipt.from_json(noted["receipt"])
        # Each purge raises the number of the state that it is committed with above those of all others.
        happened = any(state.purges >= noted["purges"] for state in states)
    except (KeyError, TypeError):
        raise RealmError(f"{journal} is damaged: it is no receipt of a purge.") from None
    if happened:
        for folder in receipt.removed:
            remove_published(Path(folder))
    journal.unlink()
    return receipt if happened else None


def _rewritten(
    store: Store,
    state: LivingState,
    ids: frozenset[str],
    held: _Held,
    embed: Embed,
    purges: int,
    successors: dict[Path, Path],
) -> LivingState:
    """The state without the documents; itself where it has none of them. `successors` gets each replacement."""
    living = tuple(sorted(store.view(state).with_ids(ids)))
    if not living and held.segments.keys().isdisjoint(store.segments / name for name in state.segments):
        return state
    after = edit_locked(store, state, Changes(removed=living), embed) if living else state
    after, own = _without_segments(store, replace(after, purges=purges), held)
    successors.update(own)
    return after


@dataclass(frozen=True)
class _Held:
    """Folders that hold documents with certain ids. segments: all of the store's. bases: two folders for each base.

    blocks: rows in all of them, of a snapshot once.
    """

    segments: dict[Path, Layer]
    bases: tuple[Path, ...]
    blocks: int

    @classmethod
    def of(
        cls, store: Store, state: LivingState, others: Sequence[tuple[Store, LivingState]], ids: frozenset[str]
    ) -> _Held:
        opened: dict[Path, Layer] = {}
        bases: dict[Path, None] = {}
        holding: dict[Path, Layer] = {}
        for own, one in ((store, state), *others):
            view = own.view(one)
            opened |= {store.segments / layer.name: layer for layer in view.layers if layer.name != BASE}
            if one.base is not None and view.layers[0].with_ids(ids):
                bases |= dict.fromkeys((own.snapshot_folder(one), own.indexes / one.base.generation))
                holding[own.snapshot_folder(one)] = view.layers[0]
        for folder in sorted(store.segments.iterdir()):
            if not folder.name.startswith(".") and folder not in opened:
                opened[folder] = Layer.open(folder.name, folder, folder)
        segments = {folder: layer for folder, layer in opened.items() if layer.with_ids(ids)}
        rows = ((layer, row) for layer in (holding | segments).values() for row in layer.with_ids(ids).values())
        return cls(segments, tuple(bases), sum(len(layer.rows_of(row)) for layer, row in rows))


def _without_segments(store: Store, state: LivingState, held: _Held) -> tuple[LivingState, dict[Path, Path]]:
    """The state with copies in the place of its segments that hold the documents, and the replacement of each."""
    names: dict[str, str] = {}
    for layer in held.segments.values():
        if layer.name not in state.segments:
            continue
        living = np.ones(layer.articles, np.bool_)
        living[list(state.tombstones.get(layer.name, ()))] = False
        rows = np.flatnonzero(living).tolist()
        documents = [layer.document(row) for row in rows]
        ids = [layer.block_ids(layer.rows_of(row)) for row in rows]
        name = names[layer.name] = segment_id(documents, ids, state.block_hash)
        if not store.taken(name):
            with disk_errors(store.segments):
                copy_of_segment(store.segments / name, layer, living, name=state.name, block_hash=state.block_hash)
    return (
        replace(
            state,
            segments=tuple(names.get(name, name) for name in state.segments),
            tombstones={name: rows for name, rows in state.tombstones.items() if name not in names},
        ),
        {store.segments / old: store.segments / new for old, new in names.items()},
    )


def _files(folder: Path, successor: Path | None) -> list[PurgedFile]:
    """Each file of a removed folder, and its replacement, of the same name."""
    files = []
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        after = None if successor is None else successor / path.name
        there = after is not None and after.exists()
        files.append(
            PurgedFile(
                str(path),
                sha256_of_file(path),
                str(after) if there else None,
                sha256_of_file(after) if there and after is not None else None,
            )
        )
    return files
