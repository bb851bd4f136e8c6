"""A fold is an ordinary snapshot and generation; what is purged is in no file any more."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from realm_core.corpus.ingest import ingest
from realm_core.corpus.records import RawArticle
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tables import derived_folders, postings_folder
from realm_core.errors import RealmError
from realm_core.files import read_json, sha256_of_file, write_json
from realm_core.index.generation import Generation
from realm_core.index.search import ExactSearch
from realm_core.living.documents import Changes, LivingDocument
from realm_core.living.editing import edit
from realm_core.living.folding import fold, rebase
from realm_core.living.index import LivingIndex
from realm_core.living.purging import Receipt, finish_purge, purge
from realm_core.living.state import Base, LivingState
from realm_core.object_store import put_folder
from realm_core.runs.activity import Activity
from tests.core.living.building import (
    BLOCK_HASH,
    NAME,
    CountingEmbedder,
    StateStore,
    answers,
    base_of,
    document,
    documents_of,
    edit_current,
    paragraph,
    queries,
    quiet,
    store_in,
    vectors,
)
from tests.in_memory_source import InMemorySource

FIRST = [document("a", "One", 0, 1), document("b", "Two", 2), document("c", "One", 1, 3)]
SECRET = "Something secret that nobody may read."


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return store_in(tmp_path)


@pytest.fixture
def state(store: StateStore) -> LivingState:
    store.commit(base_of(store, FIRST))
    return edit_current(store, Changes((document("d", "Two", 2, 4, tags=("x",)),), removed=("a",)), CountingEmbedder())


def holding(root: Path, *wanted: bytes) -> list[str]:
    """The files below a folder that hold one of these."""
    return [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*"))
        if path.is_file() and any(one in path.read_bytes() for one in wanted)
    ]


def test_a_fold_is_opened_and_verified_by_what_opens_all_others(store: StateStore, state: LivingState) -> None:
    folded = fold(store, state, quiet())
    snapshot, generation = Snapshot.open(folded.snapshot), Generation.open(folded.generation)
    snapshot.verify()
    assert generation.manifest["snapshot_id"] == snapshot.snapshot_id and generation.manifest["model_hash"] == "model"
    rows, scores = ExactSearch(generation.vectors_ND).search(queries(), 9)
    found = [[snapshot.block(row).block_id for row in own] for own in rows.tolist()]
    assert list(zip(found, scores.tolist(), strict=True)) == answers(LivingIndex.open(store, state), queries(), 9)
    rebased = rebase(store, state, folded, state, CountingEmbedder())
    assert rebased == LivingState(NAME, BLOCK_HASH, folded.base)
    assert documents_of(store.view(rebased)) == documents_of(store.view(state))
    assert fold(store, state, quiet()) == folded and fold(store, rebased, quiet()) == folded


@pytest.mark.parametrize("asked", [True, False])
def test_what_finds_blocks_by_words_is_made_by_the_fold(store: StateStore, state: LivingState, asked: bool) -> None:
    """Where the base had it, so that no web server makes it when it loads the new index."""
    if asked:
        answers(LivingIndex.open(store, state), queries(), 3, lexical=True)
    assert postings_folder(fold(store, state, quiet()).snapshot).exists() == asked


def test_folding_it_again_puts_it_into_the_store(
    store: StateStore, state: LivingState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded = fold(store, state, quiet())
    monkeypatch.setenv("REALM_STORE", f"file://{tmp_path / 'store'}")
    monkeypatch.setenv("REALM_DATA", str(store.corpora.parent))
    assert fold(store, state, quiet()) == folded
    assert not put_folder(folded.snapshot) and not put_folder(folded.generation)


def test_links_of_the_base_stay_with_their_blocks(store: StateStore) -> None:
    raw = [RawArticle(one, one, "", f"[[Link|{one}]] and text of {one}.", "wikitext") for one in ("first", "second")]
    snapshot = Snapshot.open(
        ingest(InMemorySource(raw, name=NAME), name=NAME, output=store.corpora, activity=quiet(), processes=1)
    )
    assert snapshot.has_links
    plain = base_of(store, [LivingDocument(one, one, f"{one} and text of {one}.") for one in ("first", "second")])
    assert plain.base == Base(snapshot.snapshot_id, f"{snapshot.snapshot_id}-{BLOCK_HASH}")
    state = edit(store, plain, Changes(removed=("first",)), CountingEmbedder())
    folded = Snapshot.open(fold(store, state, quiet()).snapshot)
    folded.verify()
    [(start, end)] = folded.links(0)
    assert folded.block(0).text[start:end] == "second"


def test_a_fold_keeps_the_share_of_the_source(store: StateStore) -> None:
    plain = base_of(store, FIRST)
    assert plain.base is not None
    manifest = store.corpora / NAME / plain.base.snapshot / "manifest.json"
    write_json(manifest, read_json(manifest) | {"share": 0.25}, sealed=True)
    state = edit(store, plain, Changes(removed=("a",)), CountingEmbedder())
    assert read_json(fold(store, state, quiet()).snapshot / "manifest.json")["share"] == 0.25


def test_a_fold_keeps_the_rights_of_every_document(store: StateStore) -> None:
    """In its table of documents: those that the base declares by address need not be declared any more."""
    almanac = "https://almanac.example/"
    plain = base_of(store, [FIRST[0], replace(FIRST[1], url=f"{almanac}two"), FIRST[2]])
    assert plain.base is not None
    manifest = store.corpora / NAME / plain.base.snapshot / "manifest.json"
    own = {"address": almanac, "licence": "Public domain", "attribution": "An almanac"}
    write_json(manifest, read_json(manifest) | {"licence": "CC BY 4.0", "rights": [own]}, sealed=True)
    state = edit(store, plain, Changes(removed=("a",)), CountingEmbedder())
    folded = fold(store, state, quiet())
    kept = documents_of(store.view(rebase(store, state, folded, state, CountingEmbedder())))
    assert {one.id: one.licence for one in kept} == {"b": "Public domain", "c": "CC BY 4.0"}
    assert {one.attribution for one in kept if one.id == "b"} == {"An almanac"}


def test_a_fold_of_nothing_is_refused(store: StateStore) -> None:
    with pytest.raises(RealmError, match="holds no document"):
        fold(store, LivingState(NAME, BLOCK_HASH), quiet())


def test_a_state_that_does_not_follow_is_not_rebased(store: StateStore, state: LivingState) -> None:
    folded = fold(store, state, quiet())
    other = replace(state, base=None, segments=(), tombstones={})
    with pytest.raises(RealmError, match="does not follow from"):
        rebase(store, state, folded, other, CountingEmbedder())


def test_a_fold_does_not_count_if_a_document_of_its_base_was_restored(store: StateStore, state: LivingState) -> None:
    folded = fold(store, state, quiet())
    with pytest.raises(RealmError, match="restored since the fold began"):
        rebase(store, state, folded, base_of(store, FIRST), CountingEmbedder())
    assert not folded.snapshot.exists() and not folded.generation.exists()


def test_a_segment_that_comes_back_during_a_fold_counts(store: StateStore, state: LivingState) -> None:
    folded, embed = fold(store, state, quiet()), CountingEmbedder()
    away = edit(store, state, Changes(removed=("d",)), embed)
    known = {one.id: one for one in documents_of(store.view(state))}
    back = edit(store, away, Changes((known["d"],)), embed)
    assert back.segments == state.segments
    rebased = rebase(store, state, folded, back, embed)
    assert {one.id: one for one in documents_of(store.view(rebased))} == known and embed.seen == []


def test_a_purged_document_is_in_no_file(store: StateStore, state: LivingState) -> None:
    embed = CountingEmbedder()
    secret = LivingDocument("s", "Secret", SECRET, licence="secret-licence")
    for change in (secret, document("s", "Secret", 5), secret, document("e", "Else", 6)):
        state = edit_current(store, Changes((change, *([document("f", "F", 7)] if change is secret else []))), embed)
    made = vectors([("Secret", SECRET)]).half()
    needles = SECRET.encode(), made.numpy().tobytes(), b"secret-licence", paragraph(5).encode()
    root = store.folder.parent
    assert len(holding(root, *needles)) > 3
    before = {name: sha256_of_file(root / name) for name in holding(root, *needles)}
    after, receipt = purge(store, state, ["s"], embed, commit=store.commit)
    assert holding(root, *needles) == [] and receipt.remaining == ()
    assert {one.id for one in documents_of(store.view(after))} == {"b", "c", "d", "e", "f"}
    assert store.current() == after and (receipt.state_before, receipt.state_after) == (state.id, after.id)
    told = {str(Path(file.path).relative_to(root)): file.sha256 for file in receipt.files}
    assert before.items() <= told.items() and receipt.blocks == 3
    rewritten = [file for file in receipt.files if file.successor is not None]
    assert rewritten and all(sha256_of_file(Path(str(one.successor))) == one.successor_sha256 for one in rewritten)
    store.view(after).layers[-1].snapshot.verify()
    with pytest.raises(RealmError, match="No file of the corpus tests holds 's'"):
        purge(store, after, ["s"], embed, commit=store.commit)


def test_a_document_of_the_base_is_gone_once_a_fold_has_replaced_the_base(
    store: StateStore, state: LivingState
) -> None:
    embed, root = CountingEmbedder(), store.folder.parent
    after, receipt = purge(store, state, ["b"], embed, commit=store.commit)
    assert len(receipt.remaining) == 2 and "b" not in {one.id for one in documents_of(store.view(after))}
    # Paragraph 2 under "Two" is d's as well, and stays with d; paragraph 0 was a's alone, which had been removed.
    folded = fold(store, after, quiet())
    after = rebase(store, after, folded, after, embed)
    for path in receipt.remaining:
        shutil.rmtree(path)
    assert holding(root, b"Paragraph 0 ") == [] and embed.seen == []
    assert [one.id for one in documents_of(store.view(after))] == ["c", "d"]
    with pytest.raises(RealmError, match="No file of the corpus tests holds 'a', 'b'"):
        purge(store, after, ["a", "b"], embed, commit=store.commit)


def test_a_purge_overtakes_a_fold(store: StateStore, state: LivingState) -> None:
    embed = CountingEmbedder()
    answers(LivingIndex.open(store, state), queries(), 3, lexical=True)
    folded = fold(store, state, quiet())
    after, _ = purge(store, state, ["d"], embed, commit=store.commit)
    assert derived_folders(folded.snapshot)
    with pytest.raises(RealmError, match="purged since the fold began"):
        rebase(store, state, folded, after, embed)
    assert holding(store.folder.parent, paragraph(4).encode()) == [] == derived_folders(folded.snapshot)


def test_a_purge_that_died_is_finished(store: StateStore, state: LivingState) -> None:
    """The new state is committed, and nothing is removed yet."""
    embed = CountingEmbedder()

    class Died(Exception):
        pass

    def die(_state: LivingState, _receipt: Receipt, _others: Sequence[LivingState]) -> None:
        raise Died

    with pytest.raises(Died):
        purge(store, state, ["d"], embed, commit=die)
    assert finish_purge(store, lambda: [state]) is None and store.view(state).with_ids(["d"]), "it has not happened"

    def commit_and_die(committed: LivingState, _receipt: Receipt, _others: Sequence[LivingState]) -> None:
        store.commit(committed)
        raise Died

    with pytest.raises(Died):
        purge(store, state, ["d"], embed, commit=commit_and_die)
    now = store.current()
    assert now is not None and now != state and holding(store.folder.parent, paragraph(4).encode())
    again, receipt = purge(store, now, ["d"], embed, commit=store.commit)
    assert again == now and receipt.documents == ("d",) and receipt.state_after == now.id
    assert holding(store.folder.parent, paragraph(4).encode()) == []


def test_an_uncommitted_purge_of_what_was_removed_has_not_happened(store: StateStore, state: LivingState) -> None:
    embed = CountingEmbedder()
    state = edit_current(store, Changes(removed=("d",)), embed)

    def refuse(_state: LivingState, _receipt: Receipt, _others: Sequence[LivingState]) -> None:
        raise RealmError("the database is away")

    with pytest.raises(RealmError, match="the database is away"):
        purge(store, state, ["d"], embed, commit=refuse)
    assert finish_purge(store, lambda: [state]) is None and holding(store.folder.parent, paragraph(4).encode())
    _, receipt = purge(store, state, ["d"], embed, commit=store.commit)
    assert receipt.removed and holding(store.folder.parent, paragraph(4).encode()) == []


def test_states_of_other_bases_keep_their_other_documents(store: StateStore, state: LivingState) -> None:
    """Both name the segment in which a document that is purged was added together with another one."""
    embed = CountingEmbedder()
    both = Changes((document("s", "S", 5), document("t", "T", 6)))
    here = edit(store, state, both, embed)
    there = edit(store, base_of(store, [document("z", "Z", 8)]), both, embed)
    kept = edit(store, base_of(store, [document("y", "Y", 9)]), Changes((document("x", "X", 7),)), embed)
    assert set(here.segments) & set(there.segments)
    made: list[LivingState] = []

    def commit(after: LivingState, _receipt: Receipt, others: Sequence[LivingState]) -> None:
        made.extend((after, *others))

    purge(store, here, ["s"], embed, others=[(store, there), (store, kept)], commit=commit)
    assert holding(store.folder.parent, paragraph(5).encode()) == []
    ids = [{one.id for one in documents_of(store_in(store.folder.parent).view(one))} for one in made]
    assert ids == [{"b", "c", "d", "t"}, {"z", "t"}, {"y", "x"}]
    assert made[0].purges == made[1].purges == 1 and made[2] == kept


def test_the_bases_of_all_states_are_named(store: StateStore, state: LivingState) -> None:
    embed = CountingEmbedder()
    other = edit(store, base_of(store, FIRST), Changes((document("x", "X", 7),)), embed)
    assert state.base == other.base
    _, receipt = purge(store, state, ["b"], embed, others=[(store, other)], commit=lambda *_told: None)
    assert len(receipt.remaining) == 2 and receipt.removed == ()


def test_a_fold_is_stopped_and_starts_over(store: StateStore, state: LivingState) -> None:
    class Stops(Activity):
        def check(self) -> None:
            raise RealmError("stop")

    with pytest.raises(RealmError, match="stop"):
        fold(store, state, Stops(quiet=True))
    assert list(store.corpora.glob("*/.*.fold"))
    folded = fold(store, state, quiet())
    assert not list(store.folder.parent.rglob("*.fold")) and Snapshot.open(folded.snapshot).articles == 3
    assert torch.equal(Generation.open(folded.generation).vectors_ND, vectors_in(folded.snapshot))


def vectors_in(folder: Path) -> torch.Tensor:
    snapshot = Snapshot.open(folder)
    return vectors(list(zip(*snapshot.titles_texts(0, len(snapshot)), strict=True))).half()
