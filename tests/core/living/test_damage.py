"""Damage is found where it is, and said in a sentence that names the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from realm_core.errors import RealmError
from realm_core.living.documents import Changes
from realm_core.living.editing import edit
from realm_core.living.index import LivingIndex
from realm_core.living.purging import finish_purge
from realm_core.living.state import LivingState
from tests.core.living.building import (
    BLOCK_HASH,
    NAME,
    CountingEmbedder,
    StateStore,
    base_of,
    document,
    edit_current,
    store_in,
)


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    store = store_in(tmp_path)
    store.commit(base_of(store, [document("a", "One", 0, 1), document("b", "Two", 2)]))
    edit_current(store, Changes((document("c", "Three", 3),), ("a",)), CountingEmbedder())
    return store


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def opened(store: StateStore) -> LivingIndex:
    state = store.current()
    assert state is not None
    return LivingIndex.open(store, state)


FILES = [
    *("articles.arrow", "blocks.arrow", "documents.arrow", "block_prefixes.npy", "block_rows.npy"),
    *("vectors-00000.safetensors", "manifest.json"),
]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_damaged_segment_is_named(store: StateStore, name: str, how: str) -> None:
    [segment] = store.segments.iterdir()
    damage(segment / name) if how == "damaged" else (segment / name).unlink()
    with pytest.raises(RealmError) as told:
        opened(store)
    assert str(segment / name) in str(told.value) or str(segment / "manifest.json") in str(told.value)


def test_damaged_vectors_of_a_base_are_not_reused(store: StateStore) -> None:
    state = store.current()
    assert state is not None and state.base is not None
    path = store.indexes / state.base.generation / "vectors-00000.safetensors"
    damage(path)
    with pytest.raises(RealmError, match="damaged: its checksum"):
        edit(store, state, Changes((document("d", "One", 0, 7),)), CountingEmbedder())
    with pytest.raises(RealmError, match="damaged"):
        opened(store)


def test_a_state_that_is_damaged_is_named(store: StateStore) -> None:
    path = store.folder / "current.json"
    path.write_text(path.read_text().replace(f'"{NAME}"', '"other"'))
    with pytest.raises(RealmError, match=r"current\.json is damaged: its checksum"):
        store.current()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 2}, "not a corpus state of format 1"),
        ({"segments": ["../x"]}, "does not describe a corpus state"),
        ({"segments": ["x", "x"]}, "contradict one another"),
        ({"tombstones": {"base": [1]}}, "contradict one another"),
        ({"tombstones": {"x": [-1]}, "segments": ["x"]}, "does not describe a corpus state"),
        ({"base": {"snapshot": "s"}}, "does not describe a corpus state"),
        ({"block_hash": 7}, "does not describe a corpus state"),
        ({"purges": "many"}, "does not describe a corpus state"),
    ],
)
def test_what_is_no_state_is_refused(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    (tmp_path / "state.json").write_text(json.dumps({**LivingState(NAME, BLOCK_HASH).to_json(), **change}))
    with pytest.raises(RealmError, match=reason):
        LivingState.load(tmp_path / "state.json")


def test_an_index_of_another_corpus_is_refused(store: StateStore, tmp_path: Path) -> None:
    other = store_in(tmp_path / "other")
    wrong = base_of(other, [document("z", "Other", 9)])
    state = store.current()
    assert state is not None and state.base is not None and wrong.base is not None
    (other.indexes / wrong.base.generation).rename(store.indexes / "moved")
    told = {**state.to_json(), "base": {"snapshot": state.base.snapshot, "generation": "moved"}}
    with pytest.raises(RealmError, match="is not of the corpus"):
        store.view(LivingState.from_json(told))


def test_a_damaged_receipt_is_named(store: StateStore) -> None:
    state = store.current()
    assert state is not None
    (store.folder / "purging.json").write_text('{"files": []}')
    with pytest.raises(RealmError, match="no receipt of a purge"):
        finish_purge(store, lambda: [state])
