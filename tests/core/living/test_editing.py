"""Edits: what is embedded, what is refused, what stays; documents of a base are changed and removed like any other."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from realm_core.corpus.records import Section, block_id
from realm_core.errors import RealmError
from realm_core.living.documents import Changes, DocumentRefused, Filter, LivingDocument, cleaned
from realm_core.living.editing import edit
from realm_core.living.index import LivingIndex
from realm_core.living.state import LivingState
from tests.core.living.building import (
    BLOCK_HASH,
    NAME,
    CountingEmbedder,
    StateStore,
    base_of,
    document,
    documents_of,
    edit_current,
    of_base,
    paragraph,
    queries,
    store_in,
)

FIRST = [document("a", "One", 0, 1), document("b", "Two", 2), document("c", "One", 1, 3)]


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return store_in(tmp_path)


@pytest.fixture
def state(store: StateStore) -> LivingState:
    return base_of(store, FIRST)


def texts(store: StateStore, state: LivingState) -> list[str]:
    """The living blocks in their order, each by its paragraph's number with its document's id before it."""
    view = store.view(state)
    blocks = [view.block(row) for row in view.live_rows.nonzero()[0].tolist()]
    return [f"{view.article(block.article_row).id}{block.text.split()[1]}" for block in blocks]


def test_only_new_blocks_are_embedded(store: StateStore, state: LivingState) -> None:
    embed = CountingEmbedder()
    state = edit(store, state, Changes((document("a", "One", 0, 7, 1),)), embed)
    assert embed.seen == [("One", paragraph(7))]
    state = edit(store, state, Changes((document("d", "One", 7, 3, 8), document("e", "One", 8)), removed=("b",)), embed)
    assert embed.seen[1:] == [("One", paragraph(8))]
    known = replace(document("d", "One", 7, 3, 8), tags=("seen",), licence="CC0")
    assert edit(store, state, Changes((known,)), embed) != state
    assert len(embed.seen) == 2, "what is known of a document alone has changed"


def test_an_edit_without_changes_keeps_the_state(store: StateStore, state: LivingState) -> None:
    embed = CountingEmbedder()
    assert edit(store, state, Changes((of_base(FIRST[0]),)), embed) == state
    state = edit(store, state, Changes((document("d", "New", 5),)), embed)
    assert edit(store, state, Changes((document("d", " New ", 5),)), embed) == state
    assert state.id == LivingState.from_json(state.to_json()).id and len(embed.seen) == 1


def test_a_passage_that_documents_share_outlives_the_first_of_them(store: StateStore, state: LivingState) -> None:
    """The base has paragraph 1 under "One" once, with a; c has it as well."""
    assert texts(store, state) == ["a0", "a1", "b2", "c3"]
    embed = CountingEmbedder()
    without = edit(store, state, Changes(removed=("a",)), embed)
    assert texts(store, without) == ["b2", "c1", "c3"] and embed.seen == []
    shared = edit(store, state, Changes((document("d", "Two", 2, 4),)), embed)
    assert texts(store, shared) == ["a0", "a1", "b2", "c3", "d4"]
    assert texts(store, edit(store, shared, Changes(removed=("b",)), embed)) == ["a0", "a1", "c3", "d2", "d4"]


def test_a_shared_passage_is_found_with_whichever_document_passes(store: StateStore, state: LivingState) -> None:
    """a and c of the base have paragraph 1; a is made private, and e above it has it, too."""
    private = tuple(document(one, "One", *own, collection="private") for one, own in (("a", (0, 1)), ("e", (1, 7))))
    index = LivingIndex.open(store, edit(store, state, Changes(private), CountingEmbedder()))
    shared = block_id("One", paragraph(1))

    def owners(wanted: Filter) -> list[str]:
        blocks = map(index.corpus.block, index.where(wanted).search(queries(1), 9)[0][0].tolist())
        return [index.corpus.document(one.article_row).id for one in blocks if one.block_id == shared]

    assert owners(Filter()) == ["c"], "the first: a changed document stands behind those that were there"
    assert owners(Filter(collections=frozenset({"private"}))) == ["a"]
    assert owners(Filter(hidden_collections=frozenset({"private"}))) == ["c"]
    assert owners(Filter(documents=frozenset({"e"}))) == ["e"] and owners(Filter(documents=frozenset({"b"}))) == []
    assert [index.corpus.block(row).block_id for row in index.corpus.rows_with(shared)] == [shared] * 3
    first_of_base = LivingIndex.open(store, state).where(Filter(documents=frozenset({"c"})))
    found = map(first_of_base.corpus.block, first_of_base.search(queries(1), 9)[0][0].tolist())
    assert {(one.block_id == shared, first_of_base.corpus.document(one.article_row).id) for one in found} == {
        (True, "c"),
        (False, "c"),
    }


def test_a_document_equal_to_another_is_refused_by_name(store: StateStore, state: LivingState) -> None:
    embed = CountingEmbedder()
    twin = document("d", "Two", 2, collection=NAME)
    elsewhere = edit(store, state, Changes((document("d", "Two", 2, collection="other"),)), embed)
    assert texts(store, elsewhere) == ["a0", "a1", "b2", "c3"] and embed.seen == []
    for segment in store.segments.iterdir():
        shutil.rmtree(segment)
    known = f"“Two” is in the collection {NAME} already, with the same text (id b)."
    for changes, says, present in (
        (Changes((twin,)), known, {"b": "Two"}),
        (Changes((document("e", "New", 9), twin)), known, {"b": "Two"}),
        (
            Changes((document("d", "New", 9), document("e", "New", 9))),
            "“New” is given twice, with the same text.",
            {},  # an id that the corpus does not have would say nothing
        ),
    ):
        with pytest.raises(DocumentRefused) as refused:
            edit(store, state, changes, embed)
        assert refused.value.document_id in ("d", "e") and refused.value.document_id in refused.value.reasons
        assert (str(refused.value), refused.value.present) == (says, present)
    assert embed.seen == [] and list(store.segments.iterdir()) == []
    renamed = edit(store, state, Changes((twin,), removed=("b",)), embed)
    assert texts(store, renamed) == ["a0", "a1", "c3", "d2"] and embed.seen == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (Changes(removed=("z",)), "The corpus has no document 'z'"),
        (Changes((document("a", "One", 9),), removed=("a",)), "changed and removed at once"),
        (Changes((document("d", "  ", 9),)), "'d' has no title"),
        (Changes((LivingDocument("d", "Title", "\u200b \n"),)), "'d' has no text"),
        (Changes((document(" ", "Title", 9),)), "no id"),
        (Changes((LivingDocument("d", "Title", "short", (Section("Far", 99),)),)), "do not lie in its text"),
    ],
)
def test_what_cannot_be_done_is_refused_as_a_whole(
    store: StateStore, state: LivingState, changes: Changes, reason: str
) -> None:
    with pytest.raises(DocumentRefused, match=reason):
        edit(
            store, state, Changes((*changes.documents, document("new", "New", 5)), changes.removed), CountingEmbedder()
        )
    assert list(store.segments.iterdir()) == []


def test_a_document_named_twice_is_refused(store: StateStore, state: LivingState) -> None:
    with pytest.raises(RealmError, match="is given twice"):
        edit(store, state, Changes((document("d", "X", 1), document("d", "Y", 1))), CountingEmbedder())


@pytest.mark.parametrize(
    "vectors", [torch.zeros(1, 5), torch.zeros(2, 6), torch.full((1, 6), torch.nan), torch.full((1, 6), 1e6)]
)
def test_vectors_that_do_not_fit_are_refused(store: StateStore, state: LivingState, vectors: torch.Tensor) -> None:
    def embed(_blocks: Sequence[tuple[str, str]]) -> torch.Tensor:
        return vectors

    with pytest.raises(RealmError, match="did not give 1 finite vectors of 6 numbers"):
        edit(store, state, Changes((document("d", "New", 5),)), embed)


def test_documents_are_tidied_with_their_sections() -> None:
    one = cleaned(
        LivingDocument(
            "d", "A\u00a0title", "Lead \r\nof it.\n\nFirst  part.\n Second", (Section("I", 15), Section("II", 29))
        )
    )
    assert (one.title, one.text) == ("A title", "Lead\nof it.\nFirst part.\nSecond")
    assert [(s.heading, one.text[s.start :].split()[0]) for s in one.sections] == [("I", "First"), ("II", "Second")]
    assert cleaned(one) == one and one.article().section_at(0) == ""
    bad = cleaned(LivingDocument("d", "T", "x", url="javascript:alert(1)", tags=(" b", "a", "", "b")))
    assert (bad.url, bad.tags) == ("", ("a", "b"))


def test_documents_are_listed_in_pages(store: StateStore, state: LivingState) -> None:
    state = edit(store, state, Changes((document("d", "Four", 5, 6),), removed=("b",)), CountingEmbedder())
    view = store.view(state)
    assert view.documents == 3 and [one.id for one in documents_of(view)] == ["a", "c", "d"]
    assert [(one.id, one.blocks) for one in view.listed(1, 3)] == [("c", 2), ("d", 2)]
    assert view.listed(3, 9) == []
    block = view.blocks_of_article(view.with_ids(["d"])["d"])[1]
    assert block.text == paragraph(6) and view.block(block.row) == block
    assert view.rows_with(block.block_id) == [block.row]
    assert view.rows_with("0" * 32) == []
    gone = store.view(base_of(store, FIRST)).block(2).block_id
    assert view.rows_with(gone) == []
    assert [view.article(row).id for row in view.articles_matching("paragraph (2|3|6)")] == ["c", "d"]
    with pytest.raises(IndexError):
        view.block(len(view))


def test_a_corpus_begins_without_a_base_and_can_become_empty(store: StateStore) -> None:
    embed = CountingEmbedder()
    store.commit(LivingState(NAME, BLOCK_HASH))
    state = edit_current(store, Changes((document("a", "One", 0),)), embed)
    assert store.current() == state and len(state.segments) == 1
    index = LivingIndex.open(store, state)
    assert index.search(torch.ones(2, 6), 5)[0].tolist() == [[0], [0]]
    empty = edit_current(store, Changes(removed=("a",)), embed)
    assert empty.segments == () and empty.tombstones == {}
    assert index.at(empty).search(torch.ones(2, 6), 5)[0].shape == (2, 0)


def test_vectors_of_another_embedder_are_refused(store: StateStore, state: LivingState) -> None:
    with pytest.raises(RealmError, match="another block embedder"):
        store_in(store.folder.parent).view(replace(state, block_hash="another"))
