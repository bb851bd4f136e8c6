"""The lexical score of every block: as of each by itself, and blocks that it alone finds."""

from __future__ import annotations

import errno
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from realm_core.corpus import tokens as tokens_module
from realm_core.corpus.ingest import ingest
from realm_core.corpus.records import RawArticle
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tables import tokens_folder
from realm_core.corpus.tokens import BlockTokens, Ragged
from realm_core.corpus.wordnet import ADDRESS, SCORE_OFFSET
from realm_core.errors import RealmError
from realm_core.index import retriever
from realm_core.index.build import build
from realm_core.index.generation import Generation
from realm_core.index.lexical import RANKED_AGAIN, lexical_scores, ranked_again
from realm_core.index.postings import LexicalPart, Postings
from realm_core.index.retriever import DenseRetriever
from realm_core.living import search
from realm_core.model.checkpoint import load_model, save_model
from realm_core.runs.activity import Activity
from realm_core.serving.engine import Engine
from tests.in_memory_source import InMemorySource
from tests.tiny import tiny_model, tiny_snapshot

ARTICLES = {
    "Mars": "Mars has two moons. The moons of Mars are small.",
    "Émile 東京": "Un texte. Voilà 東京 😀, and [SEP] is five characters.",
    "A very long title " * 20: "It says little of titles.",
    "Long": "The moons, and so on. " * 40,
    **{f"Town {n}": f"Town {n} is a town. It has {n} inhabitants." for n in range(3 * RANKED_AGAIN)},
    "A person": "Zbigniew Quaffelhuber looks after the moorings.",
}
QUESTIONS = ["How many moons has Mars?", "titles of 東京", "Who is Quaffelhuber?", "Town 7", ""]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return Snapshot.open(tiny_snapshot(tmp_path_factory.mktemp("postings"), ARTICLES))


def test_every_block_has_the_score_that_it_has_by_itself(snapshot: Snapshot) -> None:
    blocks = [snapshot.block(row) for row in range(len(snapshot))]
    scores_BV = LexicalPart.of(QUESTIONS, 0.5).scores(Postings.of(snapshot)).tolist()
    for question, scores in zip(QUESTIONS, scores_BV, strict=True):
        assert scores == pytest.approx([0.5 * b for b in lexical_scores(question, blocks)], rel=1e-5)
    assert tokens_folder(snapshot.folder).exists()
    in_memory = LexicalPart.of(QUESTIONS, 0.5).scores(Postings.in_memory(snapshot))
    assert in_memory.tolist() == scores_BV
    some = LexicalPart.of(QUESTIONS, 0.5).at([2, 0]).scores(Postings.of(snapshot)).tolist()
    assert some == [scores_BV[2], scores_BV[0]]


def test_an_entry_of_the_dictionary_is_scored_lower_in_both_ways(tmp_path: Path) -> None:
    text = "Quaffelhuber was a harbour master."
    entry = RawArticle("1", "Quaffelhuber", f"{ADDRESS}Quaffelhuber", text)
    article = RawArticle("2", "The harbour master", "https://example.org/2", text)
    source = InMemorySource([entry, article], name="two")
    folder = ingest(source, name="two", output=tmp_path, activity=Activity(quiet=True), processes=1)
    snapshot = Snapshot.open(folder)
    blocks = [snapshot.block(0), snapshot.block(1)]
    [scores] = LexicalPart.of(["who was quaffelhuber"], 0.5).scores(Postings.of(snapshot)).tolist()
    lexical = lexical_scores("who was quaffelhuber", blocks)
    assert scores == pytest.approx([0.5 * lexical[0] + SCORE_OFFSET, 0.5 * lexical[1]], rel=1e-5)
    order, sums = ranked_again("who was quaffelhuber", blocks, [3.0, 2.0], 0.5)
    assert [sums[order.index(place)] for place in (0, 1)] == pytest.approx([3.0 + scores[0], 2.0 + scores[1]])


def test_a_disk_that_takes_no_cache_is_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = Snapshot.open(tiny_snapshot(tmp_path, ARTICLES))

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(tokens_module, "save_array", full)
    [scores] = LexicalPart.of(["Quaffelhuber"], 1.0).scores(Postings.of(snapshot)).tolist()
    assert max(scores) > 0


def test_no_blocks_have_no_scores() -> None:
    nothing = Ragged(np.empty(0, np.uint16), np.zeros(1, np.int64))
    postings = Postings(BlockTokens(nothing, nothing, np.empty(0, np.uint64)), np.empty(0))
    assert LexicalPart.of(["Mars"], 1.0).scores(postings).shape == (1, 0)


def test_a_damaged_cache_is_refused() -> None:
    beyond = Ragged(np.array([5, 40_000], np.uint16), np.array([0, 2]))
    with pytest.raises(RealmError, match="no wordpiece 40000"):
        Postings(
            BlockTokens(beyond, Ragged(np.empty(0, np.uint16), np.zeros(2, np.int64)), np.empty(1, np.uint64)),
            np.zeros(1),
        )


@pytest.fixture(scope="module")
def deployed(snapshot: Snapshot, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A model with a lexical weight, and an index in which the person is far from what asks for them."""
    folder = tmp_path_factory.mktemp("deployed")
    model = load_model(tiny_model(folder))
    save_model(replace(model, config=replace(model.config, lexical_weight=1.0)), folder / "weighted")
    index = build(folder / "weighted", snapshot.folder, folder / "indexes", Activity(quiet=True), device="cpu")
    return folder / "weighted", index, snapshot.folder


def test_a_rare_name_is_found_although_its_vector_is_far(deployed: tuple[Path, Path, Path], snapshot: Snapshot) -> None:
    question = "Who is Quaffelhuber?"
    model, index, _ = deployed
    ((rows,), _) = DenseRetriever(load_model(model), Generation.open(index)).search([question], len(snapshot))
    assert [snapshot.block(row).title for row in rows].index("A person") >= RANKED_AGAIN  # or this shows nothing
    with closing(Engine.load(*deployed)) as engine:
        assert engine.retrieve(question, k=1).blocks[0].title == "A person"


@pytest.mark.parametrize("most_rows", [0, 100_000])
def test_engine_and_evaluation_find_the_same(
    deployed: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, most_rows: int
) -> None:
    """Also in a corpus with too many blocks to score them all, of which the nearest are ranked again."""
    for module in (retriever, search):
        monkeypatch.setattr(module, "MOST_ROWS", most_rows)
    model, index, corpus = deployed
    snapshot = Snapshot.open(corpus)
    dense = DenseRetriever(load_model(model), Generation.open(index), snapshot)
    plain = DenseRetriever(load_model(model), Generation.open(index))
    with closing(Engine.load(model, index, corpus)) as engine:
        for question in QUESTIONS[:-1]:
            ((rows,), (scores,)) = dense.search([question], 5)
            assert [one.block_id for one in engine.retrieve(question, k=5).blocks] == [
                snapshot.block(row).block_id for row in rows
            ]
            ((near,), (fs,)) = plain.search([question], len(snapshot))
            own = lexical_scores(question, [snapshot.block(row) for row in near])
            among = len(near) if most_rows else RANKED_AGAIN
            sums = {row: f + b for row, f, b in list(zip(near, fs, own, strict=True))[:among]}
            assert scores == pytest.approx(sorted(sums.values(), reverse=True)[:5], abs=1e-3)
