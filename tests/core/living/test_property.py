"""Whatever is edited, folded and purged in whatever order: a living corpus answers as one that is built anew."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realm_core.corpus.records import block_id
from realm_core.errors import RealmError
from realm_core.index.postings import LexicalPart
from realm_core.living.documents import Changes, DocumentRefused, Filter, LivingDocument
from realm_core.living.editing import edit, effect
from realm_core.living.folding import fold, rebase
from realm_core.living.index import LivingIndex
from realm_core.living.purging import purge
from realm_core.living.restoring import Step, TextLost, restore
from realm_core.living.state import LivingState
from realm_core.living.store import Store
from tests.core.living.building import (
    BLOCK_HASH,
    NAME,
    Answers,
    CountingEmbedder,
    answers,
    answers_anew,
    base_of,
    document,
    documents_of,
    of_base,
    queries,
    quiet,
    store_in,
)
from tests.nightly import examples

DAYS = [datetime.date(2024, 1, day) for day in (1, 2, 3)]

ids = st.sampled_from("abcde")
documents = st.builds(
    lambda i, title, paragraphs, language, tags, day, collection: document(
        i, title, *paragraphs, language=language, tags=tuple(sorted(tags)), date=day, collection=collection
    ),
    ids,
    st.sampled_from(["One", "Two"]),  # few titles and paragraphs, so that documents share passages
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.sampled_from(["en", "fr"]),
    st.sets(st.sampled_from(["x", "y"])),
    st.sampled_from([None, *DAYS]),
    st.sampled_from(["", "other"]),
)
edits = st.builds(
    lambda changed, removed: ("edit", Changes(tuple(changed), tuple(removed))),
    st.lists(documents, max_size=3, unique_by=lambda one: one.id),
    st.lists(ids, max_size=2, unique=True),
)
steps = st.lists(
    st.one_of(
        edits,
        edits,
        st.tuples(st.just("fold"), st.one_of(edits, ids)),
        st.tuples(st.sampled_from(["purge", "restore"]), ids),
    ),
    min_size=1,
    max_size=6,
)
subsets = st.one_of(st.none(), st.frozensets(ids))
filters = st.builds(
    Filter,
    documents=subsets,
    titles=st.one_of(st.none(), st.just(frozenset({"One"}))),
    tags=st.one_of(st.none(), st.frozensets(st.sampled_from(["x", "y"]))),
    languages=st.one_of(st.none(), st.just(frozenset({"fr"}))),
    collections=st.one_of(st.none(), st.frozensets(st.sampled_from(["", "other", NAME]))),
    since=st.one_of(st.none(), st.sampled_from(DAYS)),
    until=st.one_of(st.none(), st.sampled_from(DAYS)),
)


def passes(one: LivingDocument, wanted: Filter) -> bool:
    """The filter by another way than the library's."""
    return (
        (wanted.documents is None or one.id in wanted.documents)
        and (wanted.titles is None or one.title in wanted.titles)
        and (wanted.tags is None or not wanted.tags.isdisjoint(one.tags))
        and (wanted.languages is None or one.language in wanted.languages)
        and (wanted.collections is None or one.collection in wanted.collections)
        and (wanted.since is None or (one.date is not None and one.date >= wanted.since))
        and (wanted.until is None or (one.date is not None and one.date <= wanted.until))
    )


def expected(known: dict[str, LivingDocument], changes: Changes) -> dict[str, LivingDocument] | None:
    """The documents behind an edit by the rules of edits; None where it is to be refused."""
    if any(i not in known or i in {one.id for one in changes.documents} for i in changes.removed):
        return None
    after = {i: one for i, one in known.items() if i not in changes.removed}
    changed = [one for one in changes.documents if after.get(one.id) != one]
    after |= {one.id: one for one in changed}
    for one in changed:
        if any(other.id != one.id and _likeness(other) == _likeness(one) for other in after.values()):
            return None
    return after


def _likeness(one: LivingDocument) -> tuple[str, str, str]:
    return one.title, one.text, one.collection


def live_ids(store: Store, state: LivingState) -> set[str]:
    """Ids of the blocks that are searched."""
    view = store.view(state)
    return {view.block(int(row)).block_id for row in view.live_rows.nonzero()[0]}


class World:
    """A living corpus, and what its documents must be."""

    def __init__(self, folder: Path, first: list[LivingDocument], *, with_base: bool) -> None:
        self.folder, self.embed = folder, CountingEmbedder()
        self.store = store_in(folder)
        self.known: dict[str, LivingDocument] = {}
        if with_base and first:
            self.state = base_of(self.store, first)
            self.known = {one.id: of_base(one) for one in first}
        else:
            self.state = LivingState(NAME, BLOCK_HASH)
        self._begin()

    def _begin(self) -> None:
        """Above a new base: what was removed from another cannot be restored."""
        self.history = [step_of(self.state)]
        self.removed: dict[str, tuple[LivingState, LivingDocument]] = {}

    def _follow(self, state: LivingState, known: dict[str, LivingDocument], *, restoring: bool = False) -> None:
        for gone in self.known.keys() - known.keys():
            self.removed[gone] = self.state, self.known[gone]
        if state != self.state:
            self.history.append(step_of(state, restoring=restoring))
        self.state, self.known = state, known

    def edit(self, changes: Changes) -> None:
        after = expected(self.known, changes)
        layers = self.store.view(self.state).layers
        vectors_known = {block_id for layer in layers for block_id in layer.block_ids(range(len(layer)))}
        self.embed.seen.clear()
        before = live_ids(self.store, self.state)
        try:
            foreseen = effect(self.store.view(self.state), changes)
            tried = self.tried(changes)
            state = edit(self.store, self.state, changes, self.embed)
        except DocumentRefused:
            assert after is None
            return
        assert after is not None
        now = live_ids(self.store, state)
        assert (set(foreseen.gone), {block.block_id for block in foreseen.new}) == (before - now, now - before)
        assert_same(tried, LivingIndex.open(self.store, state))
        embedded = [block_id(title, text) for title, text in self.embed.seen]
        assert vectors_known.isdisjoint(embedded) and len(set(embedded)) == len(embedded)
        if after == self.known:
            assert state == self.state
        self._follow(state, after)

    def tried(self, changes: Changes) -> LivingIndex:
        """The index after an edit that is not made, which leaves every file as it is."""
        files = sorted(self.store.folder.rglob("*"))
        tried = LivingIndex.open(self.store, self.state).tried(changes, CountingEmbedder())
        assert sorted(self.store.folder.rglob("*")) == files
        return tried

    def restore(self, document_id: str) -> bool:
        """Restore a removed document; whether it is there again."""
        if document_id not in self.removed or document_id in self.known:
            return False
        before, document = self.removed[document_id]
        after = self.known | {document_id: document}
        twins = any(_likeness(one) == _likeness(document) for one in self.known.values())
        try:
            state = restore(self.store, self.state, {document_id: before}, lambda: self.history)
        except DocumentRefused:
            assert twins
            return False
        except TextLost:  # its segment went with a document that was purged, or stood beside one
            assert self.state.purges
            return False
        assert not twins
        if self.state == before:
            assert state == before
        self._follow(state, after, restoring=True)
        return True

    def fold(self, meanwhile: Changes | str) -> None:
        """Fold; an edit happens while it goes on, or the document with an id is restored."""
        before = self.state
        try:
            folded = fold(self.store, before, quiet())
        except RealmError:
            assert not self.known
            return
        restored = isinstance(meanwhile, str) and self.restore(meanwhile)
        if isinstance(meanwhile, Changes):
            self.edit(meanwhile)
        try:
            self.state = rebase(self.store, before, folded, self.state, self.embed)
        except RealmError as error:
            assert restored and "were restored since the fold began" in str(error)
            return
        self._begin()

    def purge(self, document_id: str) -> None:
        if document_id not in self.known:
            return
        state, _ = purge(self.store, self.state, [document_id], self.embed, commit=self.store.commit)
        self._follow(state, {one: document for one, document in self.known.items() if one != document_id})
        del self.removed[document_id]


def step_of(state: LivingState, *, restoring: bool = False) -> Step:
    return Step(state.segments, state.purges, restoring)


def assert_same(tried: LivingIndex, made: LivingIndex) -> None:
    """Two indexes have the same documents and blocks, and find the same."""
    assert tried.corpus.state == made.corpus.state
    rows = made.corpus.live_rows.nonzero()[0].tolist()
    assert tried.corpus.live_rows.nonzero()[0].tolist() == rows
    assert list(map(tried.corpus.block, rows)) == list(map(made.corpus.block, rows))
    living = made.corpus.live_articles.nonzero()[0].tolist()
    assert list(map(tried.corpus.document, living)) == list(map(made.corpus.document, living))
    assert tried.corpus.collections == made.corpus.collections
    for lexical in (None, LexicalPart.of(["Where does paragraph 1 end?"], 0.5)):
        found = [index.search(queries(1), 9, lexical) for index in (tried, made)]
        assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][1], found[1][1])


def assert_best(found: Answers, ranked: Answers, k: int) -> None:
    """The k best of all were found, in order; of equal scores at the end any may be found."""
    for (own, own_scores), (ids, scores) in zip(found, ranked, strict=True):
        assert own_scores == scores[:k]
        better = sum(score > own_scores[-1] for score in own_scores)
        assert own[:better] == ids[:better]
        last = {one for one, score in zip(ids, scores, strict=True) if own_scores and score == own_scores[-1]}
        assert set(own[better:]) <= last and len(set(own)) == len(own)


@settings(max_examples=examples(60))
@given(
    first=st.lists(documents, max_size=4, unique_by=lambda one: one.id),
    with_base=st.booleans(),
    steps=steps,
    wanted=filters,
    seed=st.integers(0, 9),
    k=st.sampled_from([1, 3, 50]),
    lexical=st.booleans(),
)
def test_any_sequence_of_edits_answers_as_a_corpus_built_anew(
    first: list[LivingDocument],
    with_base: bool,
    steps: list[tuple[str, object]],
    wanted: Filter,
    seed: int,
    k: int,
    lexical: bool,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), first, with_base=with_base)
        index = LivingIndex.open(world.store, world.state)
        for kind, what in steps:
            if kind == "edit":
                assert isinstance(what, Changes)
                world.edit(what)
            elif kind == "fold":
                assert isinstance(what, tuple | str)
                world.fold(what if isinstance(what, str) else what[1])
            else:
                assert isinstance(what, str)
                (world.restore if kind == "restore" else world.purge)(what)
            index = index.at(world.state)
            listed = documents_of(index.corpus)
            assert {one.id: one for one in listed} == world.known and len(listed) == len(world.known)
            # As many as there are tell whether everything is found; the order is compared with ingesting below.
            assert index.rows == index.corpus.blocks == int(index.corpus.live_rows.sum())
        asked = queries(seed=seed)
        anew, everything = Path(folder) / "anew", len(index.corpus) or 1
        found = answers(index, asked, k, lexical=lexical)
        assert_best(found, answers_anew(listed, anew, asked, everything, lexical=lexical), k)
        passing, only = [one for one in listed if passes(one, wanted)], index.where(wanted)
        found = answers(only, asked, k, lexical=lexical)
        assert_best(found, answers_anew(passing, anew, asked, everything, lexical=lexical), k)
        again = LivingIndex.open(store_in(Path(folder)), world.state)
        assert answers(again, asked, k) == answers(index, asked, k)


own = st.sampled_from(["p", "q", "r"])
own_documents = st.builds(
    # The first paragraphs make each of them another text, so that no other one stands in its way.
    lambda i, version, paragraphs: document(i, "Three", 10 + "pqr".index(i), 20 + version, *paragraphs),
    own,
    st.integers(0, 2),
    st.lists(st.integers(0, 3), max_size=2),
)
others = st.builds(
    lambda changed, removed: ("edit", Changes(tuple(changed), tuple(removed))),
    st.lists(st.one_of(documents, own_documents, own_documents), min_size=1, max_size=2, unique_by=lambda one: one.id),
    st.lists(ids, max_size=1, unique=True),
)


@settings(max_examples=examples(60))
@given(
    first=st.lists(st.one_of(documents, own_documents), max_size=5, unique_by=lambda one: one.id),
    with_base=st.booleans(),
    steps=st.lists(
        st.one_of(
            others,
            others,
            others,
            st.tuples(st.just("remove"), own),
            st.tuples(st.just("remove"), own),
            st.tuples(st.sampled_from(["restore", "purge"]), st.one_of(own, ids)),
        ),
        min_size=4,
        max_size=12,
    ),
    seed=st.integers(0, 9),
    lexical=st.booleans(),
)
def test_a_restored_document_is_as_if_it_had_never_been_removed(
    first: list[LivingDocument], with_base: bool, steps: list[tuple[str, object]], seed: int, lexical: bool
) -> None:
    """Order, ties and equal blocks included: two corpora, of which one has each of its documents throughout."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        worlds = [World(Path(folder), first, with_base=with_base) for folder in (one, other)]
        gone: set[str] = set()
        for kind, what in steps:
            if kind == "edit":
                assert isinstance(what, Changes)
                written = tuple(document for document in what.documents if document.id not in gone)
                removed = tuple(document_id for document_id in what.removed if document_id in worlds[0].known)
                for world in worlds:
                    world.edit(Changes(written, removed))
            elif kind == "remove" and what in worlds[0].known:
                assert isinstance(what, str)
                worlds[0].edit(Changes(removed=(what,)))
                gone.add(what)
            elif kind == "purge" and what not in gone:
                assert isinstance(what, str)
                for world in worlds:
                    world.purge(what)
            elif kind == "restore" and what in gone:
                assert isinstance(what, str)
                gone -= {what} if worlds[0].restore(what) else set()
        lost = {document_id for document_id in gone if not worlds[0].restore(document_id)}
        if lost:  # and only a purge takes a text with it
            assert worlds[0].state.purges
            return
        indexes = [LivingIndex.open(world.store, world.state) for world in worlds]
        assert documents_of(indexes[0].corpus) == documents_of(indexes[1].corpus)
        found = [answers(index, queries(seed=seed), 50, lexical=lexical) for index in indexes]
        assert found[0] == found[1]
        assert worlds[0].state == worlds[1].state
