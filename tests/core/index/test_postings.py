"""The lexical score of every block: as of each by itself, and blocks that it alone finds."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from realm_core.arrays import save_array
from realm_core.corpus import tokens as tokens_module
from realm_core.corpus.ingest import ingest
from realm_core.corpus.records import RawArticle
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tables import derived_folders, postings_folder, tokens_folder
from realm_core.corpus.tokens import BlockTokens
from realm_core.corpus.wordnet import ADDRESS, SCORE_OFFSET
from realm_core.errors import RealmError
from realm_core.files import remove_folder, write_json
from realm_core.index import postings as postings_module
from realm_core.index.build import build
from realm_core.index.generation import Generation
from realm_core.index.lexical import RANKED_AGAIN, lexical_scores, ranked_again, shares
from realm_core.index.postings import FORMAT, LexicalPart, Postings, keep_postings
from realm_core.index.proximity import Proximity
from realm_core.index.retriever import DenseRetriever
from realm_core.index.word_count import share_counted
from realm_core.living import index as living_index
from realm_core.model.checkpoint import load_model, save_model, weighted
from realm_core.runs.activity import Activity
from realm_core.serving.engine import Engine
from tests.core.evaluation.material import retrieving
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
RANK = "Which is the smallest of the moons of Mars?"
QUESTIONS = [
    "How many moons has Mars?",
    RANK,
    "titles of 東京",
    "Who is Quaffelhuber?",
    "Who is Quaffelwirt?",
    "Town 7",
    "",
]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return Snapshot.open(tiny_snapshot(tmp_path_factory.mktemp("postings"), ARTICLES))


def test_every_block_has_the_score_that_it_has_by_itself(snapshot: Snapshot) -> None:
    blocks = [snapshot.block(row) for row in range(len(snapshot))]
    scores_BV = LexicalPart.of(QUESTIONS, 0.5).scores(Postings.of(snapshot)).tolist()
    for question, scores in zip(QUESTIONS, scores_BV, strict=True):
        assert scores == pytest.approx(lexical_scores(question, blocks, 0.5), abs=3e-4)
    assert postings_folder(snapshot.folder).exists() and not tokens_folder(snapshot.folder).exists()
    in_memory = LexicalPart.of(QUESTIONS, 0.5).scores(Postings.in_memory(snapshot))
    assert in_memory.tolist() == scores_BV
    some = LexicalPart.of(QUESTIONS, 0.5).at([3, 0]).scores(Postings.of(snapshot)).tolist()
    assert some == [scores_BV[3], scores_BV[0]]


def scores_of(postings: Postings) -> list[list[float]]:
    found: list[list[float]] = LexicalPart.of(QUESTIONS, 0.5).scores(postings).tolist()
    return found


@pytest.mark.parametrize("blocks", [1, 7, 64])
def test_parts_of_any_size_give_the_same(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    """And no more blocks than a part has are held at once as wordpieces."""
    wanted, read = scores_of(Postings.in_memory(snapshot)), []

    def tokenised(snapshot: Snapshot, activity: Activity, rows: range) -> BlockTokens:
        read.append(len(rows))
        return tokens_module.tokenised(snapshot, activity, rows)

    monkeypatch.setattr(postings_module, "PART_BLOCKS", blocks)
    monkeypatch.setattr(postings_module, "tokenised", tokenised)
    copy = Snapshot.open(Path(shutil.copytree(snapshot.folder, tmp_path / snapshot.folder.name)))
    assert scores_of(Postings.of(copy)) == scores_of(Postings.in_memory(copy)) == wanted
    assert max(read) <= blocks and sum(read) == 2 * len(copy)
    assert scores_of(Postings.of(copy)) == wanted and sum(read) == 2 * len(copy)  # read, not made
    assert len(list(postings_folder(copy.folder).glob("blocks-*.npy"))) == -(-len(copy) // blocks)


def test_cached_wordpieces_give_the_same(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = scores_of(Postings.in_memory(snapshot))
    copy = Snapshot.open(Path(shutil.copytree(snapshot.folder, tmp_path / snapshot.folder.name)))
    tokens_module.open_tokens(copy, Activity(quiet=True))
    monkeypatch.setattr(postings_module, "tokenised", None)
    monkeypatch.setattr(postings_module, "PART_BLOCKS", 20)
    assert scores_of(Postings.of(copy)) == wanted


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: flip(folder / "shares-00000.npy"),
        lambda folder: (folder / "starts-00000.npy").unlink(),
        lambda folder: (folder / "blocks-00000.npy").write_bytes(b""),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: flip(folder / "manifest.json"),
        lambda folder: write_json(folder / "manifest.json", {"format": 0, "files": {}}, sealed=True),
    ],
    ids=["a bit", "a file", "empty", "no manifest", "a bit of the manifest", "another format"],
)
def test_damaged_files_are_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object]
) -> None:
    snapshot = Snapshot.open(tiny_snapshot(tmp_path, ARTICLES))
    wanted, folder = scores_of(Postings.of(snapshot)), postings_folder(snapshot.folder)
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    damage(folder)
    assert scores_of(Postings.of(snapshot)) == wanted
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    assert "made again" in caplog.text


def test_a_server_can_say_how_far_it_is(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[float | None] = []
    publish = tokens_module.text_hash

    def noted(text: str) -> int:
        seen.append(share_counted())
        return publish(text)

    monkeypatch.setattr(tokens_module, "text_hash", noted)
    monkeypatch.setattr(tokens_module, "_ROWS_AT_ONCE", 4)
    remove_folder(postings_folder(snapshot.folder))
    with caplog.at_level("INFO"):
        LexicalPart.of(["Who?"], 1.0).scores(Postings.of(snapshot))
    shares = [one for one in seen if one is not None]
    assert seen[0] is None and shares == sorted(shares) and 0 < shares[0] < shares[-1] < 1
    assert "Counting the wordpieces of the corpus, once." in caplog.text and f"of {len(snapshot)} blocks" in caplog.text
    assert share_counted() is None
    caplog.clear()
    LexicalPart.of(["Who?"], 1.0).scores(Postings.of(snapshot))
    assert not caplog.text  # they are there


def test_a_killed_maker_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = Snapshot.open(tiny_snapshot(tmp_path, ARTICLES))

    def killed(path: Path, array: Any) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(postings_module, "save_array", killed)
        scores_of(Postings.of(snapshot))
    assert not postings_folder(snapshot.folder).exists()
    assert [path.suffix for path in derived_folders(snapshot.folder)] == [".tmp"]  # and goes with the snapshot
    assert scores_of(Postings.of(snapshot)) == scores_of(Postings.in_memory(snapshot))
    assert derived_folders(snapshot.folder) == [postings_folder(snapshot.folder)]


def entry_and_article(folder: Path) -> Snapshot:
    text = "Quaffelhuber was a harbour master."
    entry = RawArticle("1", "Quaffelhuber", f"{ADDRESS}Quaffelhuber", text)
    article = RawArticle("2", "The harbour master", "https://example.org/2", text)
    source = InMemorySource([entry, article], name="two")
    return Snapshot.open(ingest(source, name="two", output=folder, activity=Activity(quiet=True), processes=1))


def test_an_entry_of_the_dictionary_is_scored_lower_in_both_ways(tmp_path: Path) -> None:
    snapshot = entry_and_article(tmp_path)
    blocks = [snapshot.block(0), snapshot.block(1)]
    [scores] = LexicalPart.of(["who was quaffelhuber"], 0.5).scores(Postings.of(snapshot)).tolist()
    lexical = lexical_scores("who was quaffelhuber", blocks, 0.5)
    assert scores == pytest.approx([lexical[0] + SCORE_OFFSET, lexical[1]], abs=3e-4)
    order, sums = ranked_again("who was quaffelhuber", blocks, [3.0, 2.0], 0.5)
    assert [sums[order.index(place)] for place in (0, 1)] == pytest.approx([3.0 + scores[0], 2.0 + scores[1]], abs=1e-3)
    without = LexicalPart.of(["who was quaffelhuber"], 0.0).scores(Postings.of(snapshot)).tolist()
    assert without == [[SCORE_OFFSET, 0.0]]
    assert ranked_again("who was quaffelhuber", blocks, [3.0, 2.0], 0.0) == ([1, 0], [2.0, 3.0 + SCORE_OFFSET])


@pytest.mark.parametrize("most_rows", [0, 100_000])
def test_it_is_also_where_words_have_no_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_rows: int) -> None:
    """Whether all blocks are scored or the nearest are ranked again."""
    snapshot, model, question = entry_and_article(tmp_path), tiny_model(tmp_path), "Who is Quaffelhuber?"
    index = build(model, snapshot.folder, tmp_path / "indexes", Activity(quiet=True), device="cpu")
    monkeypatch.setattr(living_index, "MOST_ROWS", most_rows)
    loaded = load_model(model)
    ((rows,), (fs,)) = DenseRetriever(loaded, Generation.open(index)).search([question], 2)
    wanted = [f + (SCORE_OFFSET if row == 0 else 0.0) for row, f in sorted(zip(rows, fs, strict=True))]
    [found] = retrieving(loaded, index, snapshot.folder).find([question], 2)
    score_of = {block.row: score for block, score in zip(found.blocks, found.scores, strict=True)}
    assert [score_of[row] for row in (0, 1)] == pytest.approx(wanted, abs=1e-3)
    assert found.scores == sorted(found.scores, reverse=True)
    with closing(Engine.load(model, index, snapshot.folder)) as engine:
        logits = {block.block_id: block.score for block in engine.retrieve(question, k=2).blocks}
        scale = engine.config.prior_temperature
    assert [logits[snapshot.block(row).block_id] * scale for row in (0, 1)] == pytest.approx(wanted, abs=0.05)
    assert not postings_folder(snapshot.folder).exists()


def test_a_disk_that_takes_no_cache_is_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = Snapshot.open(tiny_snapshot(tmp_path, ARTICLES))

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(postings_module, "save_array", full)
    keep_postings(snapshot, Activity(quiet=True))
    [scores] = LexicalPart.of(["Quaffelhuber"], 1.0).scores(Postings.of(snapshot)).tolist()
    assert max(scores) > 0 and not postings_folder(snapshot.folder).exists()


def test_no_blocks_have_no_scores() -> None:
    assert LexicalPart.of(["Mars"], 1.0).scores(Postings(np.empty(0, np.float32), list)).shape == (1, 0)


def test_damaged_wordpieces_are_refused(tmp_path: Path) -> None:
    snapshot = Snapshot.open(tiny_snapshot(tmp_path))
    values_T = tokens_module.open_tokens(snapshot, Activity(quiet=True)).bodies.values_T.copy()
    values_T[3] = 40_000
    save_array(tokens_folder(snapshot.folder) / "bodies.npy", values_T)
    with pytest.raises(RealmError, match="no wordpiece 40000"):
        LexicalPart.of(["Mars"], 1.0).scores(Postings.of(snapshot))
    assert not postings_folder(snapshot.folder).exists()


@pytest.fixture(scope="module")
def deployed(snapshot: Snapshot, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A model with a lexical weight, and an index in which the person is far from what asks for them."""
    folder = tmp_path_factory.mktemp("deployed")
    save_model(weighted(load_model(tiny_model(folder)), 1.0), folder / "weighted")
    index = build(folder / "weighted", snapshot.folder, folder / "indexes", Activity(quiet=True), device="cpu")
    return folder / "weighted", index, snapshot.folder


def test_a_build_keeps_them_for_a_model_that_weighs_words(tmp_path: Path) -> None:
    """Also where the index is there already: from a version that kept none."""
    model, corpus = tiny_model(tmp_path), tiny_snapshot(tmp_path, ARTICLES)
    save_model(weighted(load_model(model), 1.0), tmp_path / "weighted")
    for folder, kept in ((model, False), (tmp_path / "weighted", True)):
        build(folder, corpus, tmp_path / "indexes", Activity(quiet=True), device="cpu")
        assert postings_folder(corpus).exists() == kept


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
    monkeypatch.setattr(living_index, "MOST_ROWS", most_rows)
    model, index, corpus = deployed
    snapshot = Snapshot.open(corpus)
    loaded = load_model(model)
    evaluated, plain = retrieving(loaded, index, corpus), DenseRetriever(loaded, Generation.open(index))
    with closing(Engine.load(model, index, corpus)) as engine:
        for question in QUESTIONS[:-1]:
            [found] = evaluated.find([question], 5)
            retrieved = engine.retrieve(question, k=5).blocks
            assert [one.block_id for one in retrieved] == [block.block_id for block in found.blocks]
            assert [one.score for one in retrieved] == pytest.approx(found.scores, abs=0.2)  # half the precision
            ((near,), (fs,)) = plain.search([question], len(snapshot))
            blocks, proximity = [snapshot.block(row) for row in near], Proximity.of(question)
            own = [
                b + proximity.score(one) for b, one in zip(lexical_scores(question, blocks, 1.0), blocks, strict=True)
            ]
            among = len(near) if most_rows else RANKED_AGAIN
            assert any(map(proximity.score, blocks)) == (question == RANK)
            sums = {row: f + b for row, f, b in list(zip(near, fs, own, strict=True))[:among]}
            assert found.scores == pytest.approx(sorted(sums.values(), reverse=True)[:5], abs=1e-3)


def test_other_constants_are_another_format() -> None:
    """If this fails, raise FORMAT: postings kept beside snapshots were made with other constants than the code's."""
    assert (FORMAT, round(float(shares(np.array(2.0), 100)), 6)) == (1, 0.692913)
