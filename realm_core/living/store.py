"""The folder of a living corpus: its segments. Its current state is stored by the caller.

    segments/SEGMENT/   published by a rename
    folding.json        the running fold, or one whose process died

Snapshots and generations of bases are with all others: `corpora`/NAME/SNAPSHOT and `indexes`/GENERATION.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from realm_core.errors import RealmError
from realm_core.files import disk_errors, remove_folder
from realm_core.living.layer import Layer
from realm_core.living.state import BASE, LivingState
from realm_core.living.view import CorpusView
from realm_core.runs.locks import exclusive

EDITING = "editing"
FOLDING = "folding"


class Store:
    """folder: of the living corpus. corpora, indexes: folders of all snapshots and of all generations."""

    def __init__(self, folder: Path, *, corpora: Path, indexes: Path) -> None:
        self.folder = folder
        self.corpora, self.indexes = corpora, indexes
        self.segments = folder / "segments"
        self.folding_file = folder / "folding.json"
        self._layers: WeakValueDictionary[tuple[str, ...], Layer] = WeakValueDictionary()
        with disk_errors(folder):
            self.segments.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def lock(self, what: str = EDITING, refusal: str | None = None) -> Iterator[None]:
        """The lock of edits, or of folds: one process holds it, another waits or is refused. Reading needs none."""
        with exclusive(self.folder / f".{what}.lock", refusal):
            yield

    def snapshot_folder(self, state: LivingState) -> Path:
        assert state.base is not None
        return self.corpora / state.name / state.base.snapshot

    def view(self, state: LivingState) -> CorpusView:
        """Open a state; open layers are shared. `RealmError` names what is missing or damaged."""
        return CorpusView(state, [self.layer(state, name) for name in state.layers])

    def layer(self, state: LivingState, name: str) -> Layer:
        """Open a layer of a state; `RealmError` as for `view`."""
        if name == BASE:
            assert state.base is not None
            key: tuple[str, ...] = (state.name, state.base.snapshot, state.base.generation)
            folders = self.snapshot_folder(state), self.indexes / state.base.generation
        else:
            key, folders = (name,), (self.segments / name, self.segments / name)
        layer = self._layers.get(key)
        if layer is None:
            layer = Layer.open(name, *folders)
            if layer.vectors.block_hash != state.block_hash:
                raise RealmError(
                    f"{folders[1]} holds vectors of another block embedder ({layer.vectors.block_hash}) than the "
                    f"corpus state's ({state.block_hash})."
                )
            self._layers[key] = layer
        return layer

    def taken(self, segment: str) -> bool:
        """Whether a segment exists, which is then no leftover for a `sweep`; only under the editing lock."""
        folder = self.segments / segment
        if not folder.exists():
            return False
        os.utime(folder)
        return True

    def sweep(self, needed: Callable[[], Collection[str]], before_s: float) -> Iterator[str]:
        """Remove the segments that are not needed and that no edit has used since a time; gives each name at once.

        needed: names of segments, read with the editing lock held. before_s: seconds since 1970. A state in a database
        may name a segment a moment after the edit that published it, so `before_s` must be well in the past.
        `RealmError` while an edit is under way.
        """
        with self.lock(refusal=f"Documents in {self.folder} are being edited."), disk_errors(self.segments):
            self.sweep_half_written()
            kept = needed()
            for folder in sorted(self.segments.iterdir()):
                if folder.name.startswith(".") or folder.name in kept or folder.stat().st_mtime >= before_s:
                    continue
                hidden = folder.with_name(f".{folder.name}.partial")  # a segment is there completely or not at all
                os.rename(folder, hidden)
                remove_folder(hidden)
                yield folder.name

    def sweep_half_written(self) -> None:
        """Remove unfinished segments of a killed edit or sweep; only under the editing lock."""
        for folder in self.segments.glob(".*.partial"):
            remove_folder(folder)
