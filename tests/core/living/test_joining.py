"""What is joined is what would have been ingested together, and every document knows where it came from."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from realm_core.__main__ import main
from realm_core.arrays import Rows
from realm_core.corpus.ingest import ingest
from realm_core.corpus.records import RawArticle
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import read_json, write_json
from realm_core.index.generation import Generation
from realm_core.living import publishing
from realm_core.living.documents import Changes, DocumentRefused, Filter, LivingDocument
from realm_core.living.editing import edit
from realm_core.living.index import LivingIndex
from realm_core.living.joining import Corpus, join
from realm_core.living.layer import StoredVectors
from realm_core.living.publishing import PublishedBase
from realm_core.living.state import LivingState
from realm_core.runs.activity import Activity
from tests.core.living.building import (
    BLOCK_HASH,
    CountingEmbedder,
    answers,
    answers_anew,
    base_of,
    built_anew,
    document,
    documents_of,
    queries,
    quiet,
    store_in,
)
from tests.in_memory_source import InMemorySource
from tests.nightly import NIGHTLY

ONE = [document("a", "One", 0, 1), document("b", "Two", 2)]
OTHER = [document("a", "Else", 5), document("c", "Two", 2, 3)]  # an id that is taken, and a passage of Two


def corpus_in(root: Path, name: str, documents: list[LivingDocument]) -> Corpus:
    store = store_in(root, f"living/{name}")
    return store, base_of(store, documents, name=name)


def joined_in(root: Path, *corpora: Corpus, name: str = "both") -> tuple[LivingIndex, PublishedBase]:
    store = store_in(root, f"living/{name}")
    base = join(store, name, corpora, quiet())
    return LivingIndex.open(store, LivingState(name, BLOCK_HASH, base.base)), base


def collections(index: LivingIndex) -> dict[str, str]:
    return {one.id: one.collection for one in documents_of(index.corpus)}


# ── As ingested together ────────────────────────────────────────────────────────────────────────────────────────────

documents = st.builds(
    lambda i, title, paragraphs: document(i, title, *paragraphs),
    st.sampled_from("abcd"),
    st.sampled_from(["One", "Two"]),  # few, so that documents share ids, titles and passages
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
)
several = st.lists(documents, min_size=1, max_size=4, unique_by=lambda one: one.id)


def together(*corpora: tuple[str, list[LivingDocument]]) -> list[LivingDocument]:
    """The documents that are joined, by the rules of joining."""
    found: list[LivingDocument] = []
    names: list[tuple[str, str, str]] = []
    for name, own in corpora:
        for one in own:
            known = [known for known in names if known[0] == one.id]
            if (one.id, one.title, one.text) in known:
                continue
            names.append((one.id, one.title, one.text))
            found.append(replace(one, id=f"{name}:{one.id}" if known else one.id, collection=one.collection or name))
    return found


@settings(max_examples=200 if NIGHTLY else 15)
@given(
    several,
    several,
    several,
    st.lists(documents, max_size=2, unique_by=lambda one: one.id),
    st.sets(st.sampled_from("abcd"), max_size=1),
    st.integers(0, 9),
)
def test_what_is_joined_equals_what_is_ingested_together(
    first: list[LivingDocument],
    second: list[LivingDocument],
    third: list[LivingDocument],
    changed: list[LivingDocument],
    removed: set[str],
    seed: int,
) -> None:
    """Of three corpora, the second with edits above it."""
    with tempfile.TemporaryDirectory() as folder:
        root, embed = Path(folder), CountingEmbedder()
        corpora = [corpus_in(root, name, own) for name, own in zip("xyz", (first, second, third), strict=True)]
        store, state = corpora[1]
        gone = tuple(removed & {one.id for one in second} - {one.id for one in changed})
        try:
            state = edit(store, state, Changes(tuple(changed), gone), embed)
        except DocumentRefused as refused:
            assert "with the same text" in str(refused)
            assume(False)
        corpora[1] = store, state
        asked = queries(seed=seed)
        embed.seen.clear()
        index, base = joined_in(root, *corpora)
        expected = together(*((own_state.name, documents_of(own.view(own_state))) for own, own_state in corpora))
        assert [(one.id, one.title, one.text, one.collection) for one in documents_of(index.corpus)] == [
            (one.id, one.title, one.text, one.collection) for one in expected
        ]
        snapshot, vectors_ND = built_anew(expected, root / "anew")
        made = Snapshot.open(base.snapshot)
        made.verify()
        assert [made.block(row).block_id for row in range(len(made))] == [
            snapshot.block(row).block_id for row in range(len(snapshot))
        ]
        assert np.array_equal(made.shared_R4, snapshot.shared_R4)
        assert torch.equal(Generation.open(base.generation).vectors_ND, vectors_ND.half())
        for lexical in (False, True):
            found = answers(index, asked, 50, lexical=lexical)
            assert found == answers_anew(expected, root / "anew", asked, 50, lexical=lexical)
        only = index.where(Filter(collections=frozenset("y")))
        of_y = [one for one in expected if one.collection == "y"]
        assert answers(only, asked, 50) == answers_anew(of_y, root / "anew", asked, 50)


# ── What documents keep ─────────────────────────────────────────────────────────────────────────────────────────────


def test_every_document_has_the_name_of_its_corpus_as_its_collection_unless_it_has_another(tmp_path: Path) -> None:
    store, state = corpus_in(tmp_path, "other", OTHER)
    added = (document("p", "Press", 7, collection="press"), document("q", "Quiet", 8))
    other = store, edit(store, state, Changes(added), CountingEmbedder())
    index, _ = joined_in(tmp_path, corpus_in(tmp_path, "one", ONE), other)
    assert collections(index) == {"a": "one", "b": "one", "other:a": "other", "c": "other", "p": "press", "q": "other"}
    assert set(index.corpus.collections) == {"one", "other", "press"}


def test_a_document_keeps_its_licence_language_date_and_tags(tmp_path: Path) -> None:
    almanac = "https://almanac.example/"
    one = corpus_in(tmp_path, "one", [replace(ONE[0], url=f"{almanac}a"), ONE[1]])
    other = corpus_in(tmp_path, "other", OTHER)
    for (store, state), about in (
        (
            one,
            {
                "licence": "CC BY 4.0",
                "attribution": "One Press",
                "rights": [{"address": almanac, "licence": "Public domain", "attribution": "An almanac"}],
            },
        ),
        (other, {"licence": "CC0", "attribution": "Other Press", "language": "fr"}),
    ):
        manifest = store.snapshot_folder(state) / "manifest.json"
        write_json(manifest, read_json(manifest) | about, sealed=True)
    added = document("p", "Press", 7, licence="All rights reserved", language="de", tags=("x",))
    other = other[0], edit(*other, Changes((added,)), CountingEmbedder())
    index, base = joined_in(tmp_path, one, other)
    told = {own.id: (own.licence, own.attribution, own.language, own.tags) for own in documents_of(index.corpus)}
    assert told == {
        "a": ("Public domain", "An almanac", "en", ()),
        "b": ("CC BY 4.0", "One Press", "en", ()),
        "other:a": ("CC0", "Other Press", "fr", ()),
        "c": ("CC0", "Other Press", "fr", ()),
        "p": ("All rights reserved", "", "de", ("x",)),
    }
    manifest = read_json(base.snapshot / "manifest.json")
    assert (manifest["licence"], manifest["attribution"]) == ("CC BY 4.0; CC0", "One Press; Other Press")
    assert [one["name"] for one in manifest["joined"]] == ["one", "other"] and "rights" not in manifest


def test_links_stay_with_their_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "_LINKS_AT_ONCE", 1)
    corpora = []
    for name, titles in (("one", ("first", "second")), ("other", ("first", "third"))):
        raw = [RawArticle(one, one, "", f"[[Link|{one}]] and [[text]] of {one}.", "wikitext") for one in titles]
        source = InMemorySource(raw, name=name)
        ingest(source, name=name, output=tmp_path / "corpora", activity=quiet(), processes=1)
        corpora.append(
            corpus_in(tmp_path, name, [LivingDocument(one, one, f"{one} and text of {one}.") for one in titles])
        )
    _, base = joined_in(tmp_path, *corpora)
    snapshot = Snapshot.open(base.snapshot)
    snapshot.verify()
    linked = [[snapshot.block(row).text[a:b] for a, b in snapshot.links(row)] for row in range(len(snapshot))]
    assert linked == [["first", "text"], ["second", "text"], ["third", "text"]]


def test_a_joined_corpus_is_joined_with_another(tmp_path: Path) -> None:
    _, base = joined_in(tmp_path, corpus_in(tmp_path, "one", ONE), corpus_in(tmp_path, "other", OTHER))
    both = store_in(tmp_path, "living/both"), LivingState("both", BLOCK_HASH, base.base)
    index, _ = joined_in(tmp_path, both, corpus_in(tmp_path, "third", [document("a", "Three", 9)]), name="all")
    assert collections(index) == {"a": "one", "b": "one", "other:a": "other", "c": "other", "third:a": "third"}


def test_by_hand_the_corpora_are_found_by_their_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REALM_DATA", str(tmp_path))
    one, other = corpus_in(tmp_path, "one", ONE), corpus_in(tmp_path, "other", OTHER)
    indexes = [str(tmp_path / "indexes" / state.base.generation) for _, state in (one, other) if state.base]
    run, command = tmp_path / "run", ["join", "--index", *indexes, "--output", str(tmp_path), "--quiet"]
    assert main([*command, "--run", str(run)]) == 0
    assert Path(read_json(run / "result.json")["snapshot"]).parent == tmp_path / "corpora" / "one-other"

    edited = edit(*other, Changes((document("p", "Press", 7),)), CountingEmbedder())
    for number, state in enumerate((one[1], edited)):
        state.save(tmp_path / f"{number}.json")
    states = [str(tmp_path / f"{number}.json") for number in (0, 1)]
    assert main([*command, "--name", "all", "--state", *states, "--run", str(run)]) == 0
    assert Snapshot.open(read_json(run / "result.json")["snapshot"]).articles == 5


def test_by_hand_what_does_not_belong_together_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = corpus_in(tmp_path, "one", ONE), corpus_in(tmp_path, "other", OTHER)
    indexes = [str(tmp_path / "indexes" / state.base.generation) for _, state in (one, other) if state.base]
    one[1].save(tmp_path / "state.json")
    state = str(tmp_path / "state.json")
    for words, says in (
        ([*indexes[:1]], "--index must name two or more indexes."),
        ([*indexes, "--state", state], "--state must name as many as there are indexes"),
        ([*indexes, "--state", state, state], "is no state above the index"),
        ([*indexes, "--name", "a/b"], "'a/b' cannot be the joined corpus's name"),
    ):
        assert main(["join", "--output", str(tmp_path), "--quiet", "--index", *words]) == 2
        assert says in capsys.readouterr().err
    assert {path.name for path in (tmp_path / "living").iterdir()} == {"one", "other"}


# ── Refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_corpus_twice_is_refused(tmp_path: Path) -> None:
    one = corpus_in(tmp_path, "one", ONE)
    for other in (one, corpus_in(tmp_path, "one", OTHER)):
        with pytest.raises(RealmError, match="The corpus one is named twice"):
            joined_in(tmp_path, one, other)
    with pytest.raises(RealmError, match="two or more"):
        joined_in(tmp_path, one)


def test_different_block_embedders_are_refused(tmp_path: Path) -> None:
    store, state = corpus_in(tmp_path, "other", OTHER)
    with pytest.raises(RealmError, match="The index of other was built by another block embedder"):
        joined_in(tmp_path, corpus_in(tmp_path, "one", ONE), (store, replace(state, block_hash="another")))


def test_a_name_that_stands_for_two_things_is_refused(tmp_path: Path) -> None:
    one, (store, state) = corpus_in(tmp_path, "one", ONE), corpus_in(tmp_path, "other", OTHER)
    for name in ("one", "other"):
        with pytest.raises(RealmError, match=f"a name of its own: {name} is a collection"):
            joined_in(tmp_path, one, (store, state), name=name)
    for name in ("", ".hidden", "a/b", "x" * 61):
        with pytest.raises(RealmError, match="cannot be the joined corpus's name"):
            join(store_in(tmp_path), name, [one, (store, state)], quiet())
    moved = edit(store, state, Changes((document("p", "Press", 7, collection="one"),)), CountingEmbedder())
    with pytest.raises(RealmError, match="The corpus other has a collection one, which is the name of another"):
        joined_in(tmp_path, one, (store, moved))


def test_an_id_that_cannot_be_told_apart_is_refused(tmp_path: Path) -> None:
    one = corpus_in(tmp_path, "one", [*ONE, document("other:a", "Odd", 6)])
    with pytest.raises(RealmError, match="would have the id 'other:a'"):
        joined_in(tmp_path, one, corpus_in(tmp_path, "other", OTHER))


# ── Stopped, and made again ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("checks", [0, 5, 9, 10])  # before, while ids are read, texts are written, and vectors
def test_a_join_that_was_stopped_starts_over(tmp_path: Path, checks: int) -> None:
    """Nothing is published by halves, and what was published is kept."""
    corpora = [corpus_in(tmp_path, "one", ONE), corpus_in(tmp_path, "other", OTHER)]
    store = store_in(tmp_path, "living/both")

    class Stops(Activity):
        left = checks

        def check(self) -> None:
            self.left -= 1
            if self.left < 0:
                raise RealmError("stop")

    with pytest.raises(RealmError, match="stop"):
        join(store, "both", corpora, Stops(quiet=True))
    snapshots = [path for path in (tmp_path / "corpora" / "both").glob("*") if not path.name.startswith(".")]
    kept = {path: (path / "manifest.json").stat().st_mtime_ns for path in snapshots}
    assert len(kept) == (checks == 10) and len(list((tmp_path / "indexes").glob("[!.]*j-*"))) == 0
    index, base = joined_in(tmp_path, *corpora)
    assert not list(tmp_path.rglob("*.fold")) and len(collections(index)) == 4
    assert kept in ({}, {base.snapshot: (base.snapshot / "manifest.json").stat().st_mtime_ns})
    assert join(store, "both", corpora, quiet()) == base


def test_no_vectors_but_those_of_one_part_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of two corpora are never read as a whole."""
    asked: list[int] = []
    monkeypatch.setattr("realm_core.living.writing.SHARD_ROWS", 2)
    at = StoredVectors.at

    def counted(self: StoredVectors, rows_M: Rows) -> torch.Tensor:
        asked.append(len(rows_M))
        return at(self, rows_M)

    monkeypatch.setattr(StoredVectors, "at", counted)
    _, base = joined_in(tmp_path, corpus_in(tmp_path, "one", ONE), corpus_in(tmp_path, "other", OTHER))
    assert max(asked) <= 2 and len(read_json(base.generation / "manifest.json")["shards"]) == 3
