"""The corpus that people see, as one snapshot and one generation, for as long as an activity works on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.index.choice import search_of
from realm_core.index.generation import Generation
from realm_core.living.documents import Changes
from realm_core.living.editing import edit
from realm_core.living.present import with_edits
from realm_core.living.state import LivingState
from tests.core.living.building import NAME, CountingEmbedder, base_of, document, quiet, store_in


def opened(folder: Path, state: LivingState) -> tuple[Path, Path]:
    """The folder of the base's index, and of its corpus."""
    store = store_in(folder)
    assert state.base is not None
    return store.indexes / state.base.generation, store.corpora / state.name / state.base.snapshot


def test_it_has_the_edits_and_no_lists_and_is_gone_afterwards(tmp_path: Path) -> None:
    store = store_in(tmp_path, f"living/{NAME}")
    first = [document(f"a{n}", f"Title {n}", n) for n in range(30)]
    state = base_of(store, first, search="ivf")
    index, corpus = opened(tmp_path, state)
    state = edit(store, state, Changes((document("new", "New", 50, 51),), ("a3",)), CountingEmbedder())
    state.save(tmp_path / "state.json")
    run, living = tmp_path / "run", store.folder.parent
    with with_edits(index, corpus, tmp_path / "state.json", living, run, quiet()) as searched:
        snapshot, generation = Snapshot.open(searched.corpus), Generation.open(searched.index)
        titles = {snapshot.block(row).title for row in range(len(snapshot))}
        assert len(snapshot) == len(generation.vectors_ND) == 31
        assert "New" in titles and "Title 3" not in titles
        assert search_of(generation.manifest).kind == "exact"
        assert run in searched.index.parents and run in searched.corpus.parents
    assert not [path for path in run.rglob("*") if path.is_file()]


def test_without_edits_it_is_the_index_itself(tmp_path: Path) -> None:
    store = store_in(tmp_path, f"living/{NAME}")
    state = base_of(store, [document("a", "A", 1)])
    index, corpus = opened(tmp_path, state)
    state.save(tmp_path / "state.json")
    for file in (None, tmp_path / "state.json"):
        with with_edits(index, corpus, file, store.folder.parent, tmp_path / "run", quiet()) as searched:
            assert (searched.index, searched.corpus) == (index, corpus)


def test_a_state_of_another_index_is_refused(tmp_path: Path) -> None:
    store = store_in(tmp_path, f"living/{NAME}")
    state = base_of(store, [document("a", "A", 1)])
    base_of(store, [document("b", "B", 2)], name="other").save(tmp_path / "state.json")
    index, corpus = opened(tmp_path, state)
    with (
        pytest.raises(RealmError, match="no state above the index"),
        with_edits(index, corpus, tmp_path / "state.json", store.folder.parent, tmp_path / "run", quiet()),
    ):
        pass
