"""What a step learns from: losses written out by hand, and batches that follow from the step's number."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from realm_core.corpus.store import Snapshot
from realm_core.index.embedding import embed
from realm_core.index.generation import Generation
from realm_core.model.checkpoint import Model, load_model
from realm_core.model.pairs import collate
from realm_core.text.joins import join_block, join_query
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.config import FinetuneConfig
from realm_core.training.finetune import split
from realm_core.training.reader_stage import Examples, ReaderBatches, reader_exact_match, reader_loss
from realm_core.training.retriever_stage import (
    RetrieverBatches,
    RetrieverTask,
    retriever_loss,
    retriever_recall,
    retriever_task,
    scores,
)
from realm_core.training.rows import ReadingRow
from tests.core.conftest import Deployment
from tests.core.training.material import QUESTIONS, reading_rows
from tests.tiny import ARTICLES, tiny_config


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Examples:
    return Examples(tiny_config(tmp_path_factory.mktemp("batches") / "base"))


@pytest.fixture(scope="module")
def task(deployment: Deployment) -> RetrieverTask:
    rows = reading_rows()
    model, snapshot = load_model(deployment.model), Snapshot.open(deployment.corpus)
    elsewhere = ReadingRow("Where?", ("there",), "string", (("Elsewhere", "It is there."),), (), "tiny")
    vectors = Generation.open(deployment.index).vectors_ND
    return retriever_task(model, snapshot, vectors, [*rows[:10], elsewhere], rows[10:])


# ── Reader ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_example_knows_the_spans_that_read_the_answer(examples: Examples) -> None:
    row = reading_rows()[0]
    positive, negative = examples(row, row.positives[0]), examples(row, row.negatives[0])
    text = row.positives[0][1]
    said = [text[positive.pair.offsets[a][0] : positive.pair.offsets[b][1]] for a, b in positive.spans]
    assert said == ["17 November 1869"] and negative.spans == set()


def test_an_answer_behind_the_cut_is_not_there(tmp_path: Path) -> None:
    row = ReadingRow(
        "When?", ("1869",), "string", (("Suez Canal", "It rained. " * 30 + "It opened in 1869."),), (), "g"
    )
    config = tiny_config(tmp_path)
    for reader_wordpieces, found in ((384, 1), (40, 0)):
        example = Examples(replace(config, reader_wordpieces=reader_wordpieces))(row, row.positives[0])
        assert len(example.spans) == found


def test_the_loss_is_that_of_the_right_spans_or_of_not_here(examples: Examples) -> None:
    row = reading_rows()[1]
    pairs = [examples(row, row.positives[0]), examples(row, row.negatives[0])]
    lengths = tuple(len(example.pair.offsets) for example in pairs)
    torch.manual_seed(0)
    logits = torch.randn(sum(lengths), 6, dtype=torch.float64, requires_grad=True)
    losses, start = [], 0
    for example, length in zip(pairs, lengths, strict=True):
        own = logits[start : start + length].detach()
        total = 1.0 + own.exp().sum().item()  # "not here" has score 0
        right = math.fsum(math.exp(own[first, last - first].item()) for first, last in example.spans) or 1.0
        losses.append(-math.log(right / total))
        start += length
    loss = reader_loss(logits, pairs, lengths)
    assert loss.item() == pytest.approx(sum(losses) / 2)
    loss.backward()
    assert logits.grad is not None and torch.isfinite(logits.grad).all()


def test_reader_batches_follow_from_seed_and_step(examples: Examples) -> None:
    config = FinetuneConfig(reader_batch_wordpieces=300, reader_epochs=3)

    def drawn(seed: int, steps: list[int]) -> list[list[list[int]]]:
        batches = ReaderBatches(reading_rows(), examples, replace(config, seed=seed))
        return [[example.pair.ids for example in batches(step)] for step in steps]

    steps = list(range(ReaderBatches(reading_rows(), examples, config).steps))
    in_order = drawn(1, steps)
    assert drawn(1, steps[::-1]) == in_order[::-1]  # whatever was asked for before
    assert drawn(2, steps) != in_order
    assert all(sum(map(len, batch)) <= 300 for batch in in_order)


def test_an_epoch_has_every_row_and_repeats_groups_as_asked(examples: Examples) -> None:
    rows = reading_rows()
    config = FinetuneConfig(reader_batch_wordpieces=300, reader_epochs=1, negative_share=0.0, repeat={"tiny": 3})
    batches = ReaderBatches(rows, examples, config)
    seen = [tuple(example.pair.ids) for step in range(batches.steps) for example in batches(step)]
    wanted = [tuple(examples(row, row.positives[0]).pair.ids) for row in rows]
    assert sorted(seen) == sorted(wanted * 3)


def test_negatives_come_as_often_as_asked(examples: Examples) -> None:
    config = FinetuneConfig(reader_epochs=1, negative_share=1.0)
    batches = ReaderBatches(reading_rows(), examples, config)
    seen = [example for step in range(batches.steps) for example in batches(step)]
    assert len(seen) == 2 * len(QUESTIONS)
    assert sum(not example.spans for example in seen) == len(QUESTIONS)


def test_held_out_exact_match_is_the_mean_over_groups(deployment: Deployment) -> None:
    model = load_model(deployment.model)
    examples = Examples(model.config)
    rows = [replace(row, group=f"g{i % 3}") for i, row in enumerate(reading_rows())]
    figures = reader_exact_match(model, rows, examples, 400)
    assert figures.keys() == {"em", "em.g0", "em.g1", "em.g2"}
    assert figures["em"] == pytest.approx(sum(figures[f"em.g{i}"] for i in range(3)) / 3)
    said = [_best(model, examples, row) for row in rows]
    assert (
        figures["em.g0"]
        == sum(text == row.answers[0] for text, row in zip(said, rows, strict=True) if row.group == "g0") / 4
    )


def _best(model: Model, examples: Examples, row: ReadingRow) -> str:
    pair = examples(row, row.positives[0]).pair
    with torch.no_grad():
        logits = model.reader(*collate([pair]))
    first, width = divmod(int(logits.argmax()), logits.shape[1])
    return row.positives[0][1][pair.offsets[first][0] : pair.offsets[first + width][1]]


# ── Retriever ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_passages_of_the_corpus_are_its_rows_and_others_are_added(deployment: Deployment, task: RetrieverTask) -> None:
    snapshot, model = Snapshot.open(deployment.corpus), load_model(deployment.model)
    assert task.matrix_ND.shape == (len(ARTICLES) + 1, 16)
    for (_, correct), (_, _, title) in zip(task.learnt[:10], QUESTIONS[:10], strict=True):
        assert [snapshot.block(row).title for row in correct] == [title]
    assert task.learnt[10][1] == [len(ARTICLES)]
    joined = join_block(Wordpieces.default(), ["Elsewhere"], ["It is there."], 288)
    torch.testing.assert_close(task.matrix_ND[-1], embed(model.block, joined)[0], rtol=1e-3, atol=1e-3)
    assert len(task.held_out) == 2


def test_the_retriever_learns_by_the_marginal_over_its_passages() -> None:
    query = join_query(Wordpieces.default(), ["x"], 64)[0]
    f = torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]])
    loss = retriever_loss(f, [(query, [0, 2]), (query, [1])])
    first = (math.e + math.e**3) / (math.e + math.e**2 + math.e**3)
    second = 1.0 / (math.e**0.5 + 1.0 + math.e**-1)
    assert loss.item() == pytest.approx(-(math.log(first) + math.log(second)) / 2)


def test_recall_counts_the_best_blocks(deployment: Deployment, task: RetrieverTask) -> None:
    model = load_model(deployment.model)
    with torch.no_grad():
        order = scores(model, task.matrix_ND, task.held_out).argsort(dim=1, descending=True).tolist()
    ranks = [row.index(correct[0]) for row, (_, correct) in zip(order, task.held_out, strict=True)]
    figures = retriever_recall(model, task)
    assert figures == {f"recall@{k}": sum(rank < k for rank in ranks) / 2 for k in (1, 5, 20)}
    assert retriever_recall(model, task, at_once=1) == figures


def test_retriever_batches_follow_from_seed_and_step(task: RetrieverTask) -> None:
    in_order = [RetrieverBatches(task, 3, 1)(step) for step in range(6)]  # three steps an epoch
    batches = RetrieverBatches(task, 3, 1)
    assert [batches(step) for step in range(6)] == in_order
    assert [batches(step) for step in reversed(range(6))] == in_order[::-1]
    assert in_order[:3] != in_order[3:]
    assert len({tuple(query.ids) for batch in in_order[:3] for query, _ in batch}) == 9  # an epoch repeats nothing


# ── Learnt and held out ─────────────────────────────────────────────────────────────────────────────────────────────


def test_no_article_is_learnt_from_and_held_out() -> None:
    rows = [ReadingRow(f"q{i}", ("a",), "string", ((f"title {i % 40}", "a"),), (), "g") for i in range(200)]
    learnt, held_out = split(rows, 0.3)
    titles = [{row.positives[0][0] for row in part} for part in (learnt, held_out)]
    assert titles[0] and titles[1] and not titles[0] & titles[1]
    assert len(learnt) + len(held_out) == 200 and 20 <= len(held_out) <= 110
    assert split(rows, 0.3) == (learnt, held_out)
    assert split(rows, 0.0) == (rows, [])
