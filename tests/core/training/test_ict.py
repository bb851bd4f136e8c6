"""The Inverse Cloze Task: which sentences are asked, what stays of their blocks, what is learnt, and resuming."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import open_tokens
from realm_core.errors import RealmError
from realm_core.model.checkpoint import load_model
from realm_core.model.joiner import Joiner
from realm_core.text.sentences import sentence_spans
from realm_core.text.wordpieces import Wordpieces
from realm_core.training import ict
from realm_core.training.distributed import World
from realm_core.training.ict import Cloze, ClozeBatches, IctStep, in_batch_loss, recall, shared_parts
from realm_core.training.stage import even_parts
from tests.core.model import formulas
from tests.core.model.plain import PlainEmbedder
from tests.core.running import activity_of, metrics
from tests.core.training.towns import COUNT, QUIET, TEXTS, Towns
from tests.tiny import tiny_snapshot

WORDPIECES = Wordpieces.default()
CPU = torch.device("cpu")
LEARNING: dict[str, Any] = {
    "steps": 60,
    "batch": 16,
    "at_once": 16,
    "learning_rate": 1e-2,
    "dropout": 0.0,
    "holdout": 0.21,  # ten of the forty
    "checkpoint_every": 20,
}


@pytest.fixture(scope="module")
def snapshot(towns: Towns) -> Snapshot:
    return Snapshot.open(towns.corpus)


def drawn(snapshot: Snapshot, seed: int, *, limit: int = 64, keep: float = 0.1) -> Cloze:
    """A sentence of every block."""
    return ClozeBatches(snapshot, limit=limit, keep=keep)(range(len(snapshot)), str(seed))


def sentences(text: str) -> list[list[int]]:
    return WORDPIECES.ids([text[start:end] for start, end in sentence_spans(text)])


# ── What is asked ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_nine_times_in_ten_the_sentence_is_taken_out(snapshot: Snapshot) -> None:
    kept, which = 0, [0, 0, 0]
    rounds = 40
    for seed in range(rounds):
        batch = drawn(snapshot, seed)
        for row, query, first, stop in zip(batch.rows_B, batch.queries, batch.first_B, batch.stop_B, strict=True):
            text = snapshot.block(int(row)).text
            which[sentences(text).index(query)] += 1
            body = WORDPIECES.ids([text])[0]
            if first == stop == 0:
                kept += 1
            else:
                assert body[first:stop] == query
    total = rounds * COUNT
    assert abs(kept / total - 0.1) < 5 * math.sqrt(0.1 * 0.9 / total)
    assert all(abs(times / total - 1 / 3) < 5 * math.sqrt(2 / 9 / total) for times in which)


@pytest.mark.parametrize(("keep", "share"), [(0.0, 0.0), (1.0, 1.0), (0.5, 0.5)])
def test_how_often_it_stays_is_a_setting(snapshot: Snapshot, keep: float, share: float) -> None:
    stays = [int(stop) == 0 for seed in range(10) for stop in drawn(snapshot, seed, keep=keep).stop_B]
    assert np.mean(stays) == pytest.approx(share, abs=0.13 * (0 < share < 1))


def test_the_block_is_read_without_its_sentence(towns: Towns, snapshot: Snapshot) -> None:
    joiner = Joiner(open_tokens(snapshot, QUIET), CPU)
    batch = drawn(snapshot, 3, keep=0.3)
    packed = joiner.blocks_without(batch.rows_B, batch.first_B, batch.stop_B, 288)
    cls, sep = WORDPIECES.cls_id, WORDPIECES.sep_id
    whole = 0
    for row, query, stop, ids in zip(
        batch.rows_B.tolist(), batch.queries, batch.stop_B, packed.ids_T.split(packed.lengths), strict=True
    ):
        block = snapshot.block(row)
        left = [one for one in sentences(block.text) if one != query or stop == 0]
        whole += len(left) == 3
        assert ids.tolist() == [cls, *WORDPIECES.ids([block.title])[0], sep, *sum(left, []), sep]  # noqa: RUF017
    assert 0 < whole < COUNT


def test_a_block_of_one_sentence_keeps_it(tmp_path: Path) -> None:
    lone = Snapshot.open(tiny_snapshot(tmp_path, {"Rain": "It rains a lot.", "Wind": "It blows. It howls."}))
    rows = {lone.block(row).title: row for row in range(2)}
    for seed in range(20):
        batch = drawn(lone, seed, keep=0.0)
        assert batch.queries[rows["Rain"]] == WORDPIECES.ids(["It rains a lot."])[0]
        assert batch.stop_B[rows["Rain"]] == 0 and batch.stop_B[rows["Wind"]] > 0


def test_a_long_sentence_is_asked_in_part_and_taken_out_whole(tmp_path: Path) -> None:
    text = "It rains. " + " ".join(["Rain"] * 50) + "."
    corpus = Snapshot.open(tiny_snapshot(tmp_path, {"Rain": text}))
    batches = [drawn(corpus, seed, limit=16, keep=0.0) for seed in range(10)]
    long = [batch for batch in batches if len(batch.queries[0]) > 5]
    assert long and all(batch.queries == [WORDPIECES.ids(["Rain " * 14])[0]] for batch in long)  # and [CLS] and [SEP]
    assert {(int(batch.first_B[0]), int(batch.stop_B[0])) for batch in long} == {(3, 54)}


def test_batches_follow_from_the_draw(snapshot: Snapshot) -> None:
    first, again, other = (drawn(snapshot, seed) for seed in (1, 1, 2))
    assert first.queries == again.queries and first.stop_B.tolist() == again.stop_B.tolist()
    assert first.queries != other.queries
    part = first.part(slice(3, 5))
    assert (part.queries, part.rows_B.tolist()) == (first.queries[3:5], [3, 4])
    assert part.stop_B.tolist() == first.stop_B[3:5].tolist() and part.first_B.tolist() == first.first_B[3:5].tolist()


# ── Scores, loss and figures ────────────────────────────────────────────────────────────────────────────────────────


def test_scores_are_inner_products_of_one_embedder(
    towns: Towns, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ict, "fast_dtype", lambda device: torch.float32)
    embedder = load_model(towns.model).block
    joiner, batch = Joiner(open_tokens(snapshot, QUIET), CPU), drawn(snapshot, 1).part(slice(0, 5))
    with torch.no_grad():
        query_BD, block_BD = IctStep(embedder, joiner, 288, World()).vectors(batch)
    scores_BB = query_BD @ block_BD.T
    embed = PlainEmbedder(embedder)
    packed = joiner.blocks_without(batch.rows_B, batch.first_B, batch.stop_B, 288)
    for number, query in enumerate(batch.queries):
        query_D = embed([WORDPIECES.cls_id, *query, WORDPIECES.sep_id])
        parts = zip(packed.ids_T.split(packed.lengths), packed.segments_T.split(packed.lengths), strict=True)
        wanted_B = torch.stack([query_D @ embed(ids.tolist(), segments.tolist()) for ids, segments in parts])
        torch.testing.assert_close(scores_BB[number], wanted_B, rtol=1e-3, atol=1e-3)


def test_loss_and_accuracy_are_of_a_softmax_over_the_batch() -> None:
    scores = [[3.0, 1.0, 0.5], [2.0, 1.0, -1.0], [0.0, 0.25, 0.5]]
    loss, accuracy = in_batch_loss(torch.tensor(scores), 0)
    wanted = [-math.log(formulas.softmax(row)[number]) for number, row in enumerate(scores)]
    assert loss.item() == pytest.approx(sum(wanted) / 3)
    assert accuracy == pytest.approx(2 / 3)


def test_a_processs_blocks_stand_behind_those_of_the_processes_before() -> None:
    scores = torch.tensor([[0.0, 0.0, 5.0, 0.0], [0.0, 0.0, 0.0, 5.0]])
    loss, accuracy = in_batch_loss(scores, 2)
    assert accuracy == 1.0 and loss.item() == pytest.approx(-math.log(formulas.softmax([0.0, 0.0, 5.0, 0.0])[2]))


@given(st.integers(2, 200), st.integers(2, 40), st.integers(1, 7))
def test_every_process_has_as_many_parts_and_all_examples_are_in_one(
    examples: int, at_once: int, processes: int
) -> None:
    parts = shared_parts(examples, at_once, processes)
    assert len(parts) == processes and len({len(own) for own in parts}) == 1
    assert all(part.stop - part.start <= at_once for own in parts for part in own)
    for rank, own in enumerate(parts):
        share = len(range(examples)[World(rank, processes).share(examples)])
        assert [place for part in own for place in range(part.start, part.stop)] == list(range(share))


def test_recall_counts_how_many_blocks_are_better() -> None:
    scores_BB = torch.randn(40, 40, generator=torch.Generator().manual_seed(3))
    scores_BB += 1.5 * torch.eye(40)
    ranks = [sorted(row, reverse=True).index(row[number]) for number, row in enumerate(scores_BB.tolist())]
    assert recall(scores_BB) == {f"recall@{k}": pytest.approx(sum(rank < k for rank in ranks) / 40) for k in (1, 5, 20)}
    assert 0 < recall(scores_BB)["recall@1"] < recall(scores_BB)["recall@5"] < recall(scores_BB)["recall@20"] < 1


# ── The training ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def learnt(towns: Towns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ict")
    activity_of("ict", towns.warm_up(folder / "made", LEARNING), run=folder / "run")
    return folder


def test_loss_falls_and_accuracy_rises(learnt: Path) -> None:
    losses, accuracies = (metrics(learnt / "run", f"ict.{name}") for name in ("loss", "accuracy"))
    assert list(losses) == [10, 20, 30, 40, 50, 60]
    assert losses[60] < 0.85 * losses[10] and losses[10] == pytest.approx(math.log(16), abs=0.2)  # chance
    assert accuracies[60] > 1.5 / 16  # chance is 1 / 16
    held_out = metrics(learnt / "run", "ict.held_out.recall@1")
    assert list(held_out) == [20, 40, 60] and held_out[60] > 1 / 10


def test_one_embedder_moves_and_nothing_else(towns: Towns, learnt: Path) -> None:
    before, after = load_model(towns.model), load_model(learnt / "made")
    for name in ("reader", "encoder"):
        old, new = before.parts()[name].state_dict(), after.parts()[name].state_dict()
        assert all(torch.equal(old[key], new[key]) for key in old)
    query, block, begun = (part.state_dict() for part in (after.query, after.block, before.block))
    assert all(torch.equal(query[key], block[key]) for key in query)
    changed = {key for key in block if not torch.equal(block[key], begun[key])}
    assert "dense.weight" in changed and not any("embeddings" in key for key in changed)


def test_the_result_tells_recipe_and_figures(towns: Towns, learnt: Path) -> None:
    result = json.loads((learnt / "run" / "result.json").read_text())
    model = load_model(learnt / "made")
    assert (result["path"], result["model_hash"]) == (str(learnt / "made"), model.hash)
    assert result["held_out"].keys() == {"recall@1", "recall@5", "recall@20"}
    assert result["passages"]["learnt"] > result["passages"]["held_out"] > 0
    assert model.about is not None and "inverse cloze task from" in model.about["recipe"][-1]
    assert not (learnt / "run" / "ict").exists()


@pytest.mark.parametrize(("blocks", "holdout"), [(1, 0.0), (3, 0.9)])
def test_a_corpus_with_nothing_to_tell_apart_is_refused(
    towns: Towns, tmp_path: Path, blocks: int, holdout: float
) -> None:
    corpus = tiny_snapshot(tmp_path, dict(list(TEXTS.items())[:blocks]))
    words = [*towns.warm_up(tmp_path / "made", LEARNING | {"holdout": holdout}), "--corpus", corpus]
    with pytest.raises(
        RealmError, match=rf"{corpus} holds [01] blocks to train on besides those held out; at least 2 are needed"
    ):
        activity_of("ict", words, run=tmp_path / "run")


@pytest.mark.parametrize(("batch", "at_once", "parts"), [(7, 3, [2, 2, 3]), (5, 4, [2, 3]), (6, 2, [2, 2, 2])])
def test_no_sentence_is_alone_in_its_part(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int, at_once: int, parts: list[int]
) -> None:
    sizes: list[int] = []

    def counted(scores_BA: torch.Tensor, first: int) -> tuple[torch.Tensor, float]:
        sizes.append(len(scores_BA))
        return in_batch_loss(scores_BA, first)

    monkeypatch.setattr(ict, "in_batch_loss", counted)
    settings = LEARNING | {"steps": 1, "batch": batch, "at_once": at_once, "holdout": 0.0}
    activity_of("ict", towns.warm_up(tmp_path / "made", settings), run=tmp_path / "run")
    assert sizes == parts


@pytest.mark.parametrize("batch", [5, 100])  # of 40 blocks one is held out
def test_parts_of_two_want_even_numbers(towns: Towns, tmp_path: Path, batch: int) -> None:
    settings = LEARNING | {"batch": batch, "at_once": 2, "holdout": 0.004}
    words = [*towns.warm_up(tmp_path / "made", settings), "--model", tmp_path / "none"]
    with pytest.raises(
        RealmError, match=rf"at_once must be at least 3, not 2, where .* number of examples, {min(batch, 39)} \("
    ):
        activity_of("ict", words, run=tmp_path / "run")


@given(share=st.integers(2, 300), at_once=st.integers(3, 70))
def test_parts_are_even(share: int, at_once: int) -> None:
    lengths = [len(range(share)[part]) for part in even_parts(share, at_once)]
    assert sum(lengths) == share and len(lengths) == math.ceil(share / at_once)
    assert min(lengths) >= 2 and max(lengths) <= min(at_once, min(lengths) + 1)


def test_a_batch_is_never_larger_than_what_is_learnt_from(towns: Towns, tmp_path: Path) -> None:
    settings = LEARNING | {"steps": 2, "batch": 100, "at_once": 100, "checkpoint_every": 2}
    activity_of("ict", towns.warm_up(tmp_path / "made", settings), run=tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[0]["step"] == 2 and rows[0]["ict.loss"] > 0


def test_an_existing_output_is_refused(towns: Towns, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    with pytest.raises(RealmError, match="made exists already"):
        activity_of("ict", towns.warm_up(tmp_path / "made", LEARNING), run=tmp_path / "run")


def test_without_a_run_folder_nothing_but_the_model_is_left(towns: Towns, tmp_path: Path) -> None:
    activity_of("ict", towns.warm_up(tmp_path / "made", LEARNING | {"steps": 2, "checkpoint_every": 1}))
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
