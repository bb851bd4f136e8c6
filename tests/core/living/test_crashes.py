"""Killed at any instant, an edit, a fold or a purge has happened or has not, and what is left over goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from realm_core.errors import RealmError
from realm_core.living.documents import Changes
from realm_core.living.folding import fold
from realm_core.living.index import LivingIndex
from realm_core.living.purging import finish_purge, purge
from realm_core.living.state import LivingState
from tests import forked
from tests.core.living import crashing
from tests.core.living.building import (
    Answers,
    CountingEmbedder,
    StateStore,
    answers,
    base_of,
    document,
    edit_current,
    first_state,
    paragraph,
    queries,
    quiet,
    store_in,
)
from tests.nightly import NIGHTLY

pytestmark = pytest.mark.timeout(900)  # processes are started, on a machine that may be busy

EVERY = 1 if NIGHTLY else 6  # of the instants


def asked(store: StateStore) -> Answers:
    state = store.current()
    assert state is not None
    return answers(LivingIndex.open(store, state), queries(), 50)


def current_of(store: StateStore) -> Callable[[], list[LivingState]]:
    return lambda: [state for state in [store.current()] if state is not None]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateStore:
    """A store with a base and a segment, current; here nothing waits for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    store = store_in(tmp_path / "start")
    store.commit(base_of(store, [document("a", "One", 0, 1), document("b", "Two", 2), document("c", "One", 1, 3)]))
    edit_current(store, Changes((document("d", "Four", 5), document("e", "Five", 6))), CountingEmbedder())
    return store


def killed(work: str, root: Path) -> list[StateStore]:
    """A store for each instant at which the work was killed; the last one's got to its end."""
    command = [sys.executable, "-m", "tests.core.living.crashing", work, str(root), str(EVERY)]
    said = forked.run(command, os.environ).strip()
    assert said.isdecimal() and int(said) > 10, said
    return [store_in(root / str(number)) for number in range(0, int(said) + 1, EVERY)]


def leftovers(store: StateStore) -> list[Path]:
    """Folders that were being written."""
    return [path for path in store.folder.parent.rglob(".*") if path.is_dir()]


def test_an_edit_has_happened_or_has_not(start: StateStore, tmp_path: Path) -> None:
    before = asked(start)
    stores = killed("edits", tmp_path)
    after = asked(stores[-1])
    assert after != before
    seen = [asked(store) for store in stores]
    happened = [own == after for own in seen]
    assert all(own in (before, after) for own in seen)
    assert happened == sorted(happened), "once it has happened it stays so"
    for store in stores[::3]:
        edit_current(store, Changes((document("later", "Later", 8),)), CountingEmbedder())
        assert leftovers(store) == []
        assert asked(store) != before


def test_a_fold_that_died_starts_over(start: StateStore, tmp_path: Path) -> None:
    before = asked(start)
    stores = killed("folds", tmp_path)
    assert all(asked(store) == before for store in stores)
    for store in stores[::3]:
        state = store.current()
        assert state is not None
        folded = fold(store, state, quiet())
        assert store.view(first_state(store, state.name, folded.base)).documents == 5
        assert leftovers(store) == []


@pytest.mark.nightly  # a fold, which writes the same files, dies every day, and test_joining.py stops a join
def test_a_join_that_died_starts_over(start: StateStore, tmp_path: Path) -> None:
    base_of(start, [document("a", "Else", 9)], name="other")
    before = asked(start)
    stores = killed("joins", tmp_path)
    for store in stores:
        assert asked(store) == before
        for place in (store.corpora / "both", store.indexes):  # what has a name is whole
            for folder in place.glob("[!.]*"):
                assert (folder / "manifest.json").exists()
        crashing.joins(store)
        assert leftovers(store) == [] and len(list((store.corpora / "both").iterdir())) == 1


@pytest.mark.nightly  # an edit and a fold die every day
def test_a_purge_that_died_is_finished_or_done_again(start: StateStore, tmp_path: Path) -> None:
    before = asked(start)
    stores = killed("purges", tmp_path)
    after = asked(stores[-1])
    for number, store in enumerate(stores):
        found = asked(store)
        assert found in (before, after), number
        state = store.current()
        assert state is not None
        finish_purge(store, current_of(store))
        assert asked(store) == found
        if found == after:
            with pytest.raises(RealmError, match="No file"):
                purge(store, state, ["d"], CountingEmbedder(), commit=store.commit)
        else:
            purge(store, state, ["d"], CountingEmbedder(), commit=store.commit)
        held = [path for path in store.folder.parent.rglob("*") if path.is_file()]
        assert not any(paragraph(5).encode() in path.read_bytes() for path in held), number


@pytest.mark.nightly  # an edit and a fold die every day
def test_a_sweep_that_died_leaves_no_half_segment(start: StateStore, tmp_path: Path) -> None:
    """An edit that is made again finds its segment whole, or writes it again."""
    readded = Changes((document("d", "Four", 5), document("e", "Five", 6)))
    with_segment = asked(start)
    edit_current(start, Changes(removed=("d", "e")), CountingEmbedder())
    before = asked(start)
    stores = killed("sweeps", tmp_path)
    for number, store in enumerate(stores):
        assert asked(store) == before, number
        edit_current(store, readded, CountingEmbedder())
        assert asked(store) == with_segment and leftovers(store) == [], number
    assert len(list(stores[-1].segments.iterdir())) == 1


def test_the_changes_are_those_that_the_tests_mean(start: StateStore) -> None:
    assert {one.id for one in crashing.CHANGES.documents} == {"a", "new"} and crashing.CHANGES.removed == ("c",)
    state = start.current()
    assert state is not None and start.view(state).documents == 5
