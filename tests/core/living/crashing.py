"""Kills work on a living corpus before changes of the disk: `python -m tests.core.living.crashing WORK ROOT EVERY`.

ROOT/start holds a store. For n = 0, EVERY, 2 × EVERY, … a copy of it, ROOT/n, is worked on by a process that is killed
by SIGKILL before its nth change of a file or folder, until one gets to its end. The last one's number is printed.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
from pathlib import Path

import torch

from realm_core.living.documents import Changes, LivingDocument
from realm_core.living.folding import fold, rebase
from realm_core.living.joining import join
from realm_core.living.purging import purge
from realm_core.living.state import Base
from tests.core.living.building import (
    BLOCK_HASH,
    CountingEmbedder,
    StateStore,
    document,
    edit_current,
    first_state,
    quiet,
    store_in,
)

CHANGES = Changes((document("a", "One", 0, 9), LivingDocument("new", "New", "A new document.")), removed=("c",))
_CHANGING = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod"}


def edits(store: StateStore) -> None:
    edit_current(store, CHANGES, CountingEmbedder())


def folds(store: StateStore) -> None:
    state = store.current()
    assert state is not None
    folded = fold(store, state, quiet())
    store.commit(rebase(store, state, folded, state, CountingEmbedder()))


def joins(store: StateStore) -> None:
    """What is current there and the corpus `other` beside it become the corpus `both`."""
    state = store.current()
    assert state is not None
    [snapshot] = (store.corpora / "other").iterdir()
    other = first_state(store, "other", Base(snapshot.name, f"{snapshot.name}-{BLOCK_HASH}"))
    join(store_in(store.folder.parent, "living-both"), "both", [(store, state), (store, other)], quiet())


def purges(store: StateStore) -> None:
    state = store.current()
    assert state is not None
    purge(store, state, ["d"], CountingEmbedder(), commit=store.commit)


def sweeps(store: StateStore) -> None:
    state = store.current()
    assert state is not None
    list(store.sweep(lambda: state.segments, math.inf))


WORK = {work.__name__: work for work in (edits, folds, joins, purges, sweeps)}


def _killed_before(change: int, root: Path) -> None:
    """Have this process killed before its change number `change` below `root`."""
    count = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event == "open":
            changes = bool(int(str(arguments[2] or 0)) & (os.O_WRONLY | os.O_RDWR))
        else:
            changes = event in _CHANGING
        # What removes a tree names files by their names alone, below an open folder.
        inside = str(arguments[0]).startswith(str(root)) or event in ("os.remove", "os.rmdir") if arguments else False
        if changes and inside:
            if count == change:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

    sys.addaudithook(watch)


def main(work: str, root: Path, every: int) -> None:
    torch.set_num_threads(1)
    os.fsync = lambda _descriptor: None  # type: ignore[assignment]  # a killed process loses nothing by it
    shutil.copytree(root / "start", root / "warm")
    WORK[work](store_in(root / "warm"))  # whatever is loaded and read at the first use is there in every process then
    shutil.rmtree(root / "warm")
    number = 0
    while True:
        own = root / str(number)
        shutil.copytree(root / "start", own)
        child = os.fork()
        if child == 0:
            try:
                _killed_before(number, own)
                WORK[work](store_in(own))
            except BaseException as error:
                print(f"{number}: {error!r}", file=sys.stderr)
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            print(number if os.WEXITSTATUS(status) == 0 else "failed")
            return
        number += every


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
