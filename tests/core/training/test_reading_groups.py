"""A question's retrieved blocks, learnt together: rows, the loss, and batches made in other processes."""

from __future__ import annotations

import math
import os
import random
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from realm_core.errors import RealmError
from realm_core.model.checkpoint import load_model
from realm_core.model.config import ModelConfig
from realm_core.model.marginal import question_loss
from realm_core.model.reader import by_block
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.reading_batch import batches_of
from realm_core.training.reading_rows import ReadingRow, grouped, read_rows, some_blocks
from realm_core.training.stage import Prefetch
from tests.core.running import activity_of, metrics
from tests.core.training.material import write_lines
from tests.core.training.test_train_reader import arguments
from tests.tiny import ARTICLES, tiny_deployment


def row(question: str, score: float | None, *answers: str) -> ReadingRow:
    return ReadingRow(question, "", f"It says {' and '.join(answers) or 'nothing'}.", answers, score=score)


def test_consecutive_scored_rows_of_a_question_are_one_group() -> None:
    rows = [row("a", 2.0, "x"), row("a", 1.0), row("b", 3.0), row("b", None), row("b", None, "y"), row("b", 1.0)]
    assert [len(group) for group in grouped(rows)] == [2, 1, 1, 1, 1]
    assert [one for group in grouped(rows) for one in group] == rows


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(1, 15), st.integers(0, 1000))
def test_the_best_blocks_are_read_and_one_that_answers(answers: list[bool], least: int, seed: int) -> None:
    group = [row("q", float(-rank), *(["x"] if held else [])) for rank, held in enumerate(answers)]
    read = some_blocks(group, least, random.Random(seed))
    assert min(least, len(group)) <= len(read) <= len(group)
    assert any(one.answers for one in read) == any(answers)
    assert list(read[:-1]) == group[: len(read) - 1]  # in the order of their scores; only the last may be from behind
    assert read[-1] in group


@given(
    st.lists(
        st.lists(st.tuples(st.booleans(), st.floats(-8, -0.01), st.floats(-5, 5)), min_size=1, max_size=5),
        min_size=1,
        max_size=4,
    )
)
def test_the_loss_is_of_the_marginal_over_the_blocks_that_answer(
    questions: list[list[tuple[bool, float, float]]],
) -> None:
    places = [(number, rank) for number, blocks in enumerate(questions) for rank in range(len(blocks))]
    flat = [block for blocks in questions for block in blocks]
    loss_G = question_loss(
        torch.tensor([log_p for _, log_p, _ in flat]),
        torch.tensor([held for held, _, _ in flat]),
        torch.tensor([score for _, _, score in flat]),
        torch.tensor(places).T,
        len(questions),
    )
    for loss, blocks in zip(loss_G.tolist(), questions, strict=True):
        held = [(log_p, math.exp(score)) for is_held, log_p, score in blocks if is_held]
        others = [log_p for is_held, log_p, _ in blocks if not is_held]
        expected = -sum(others) / len(others) if others else 0.0
        if held:
            total = sum(weight for _, weight in held)
            expected -= math.log(sum(weight / total * math.exp(log_p) for log_p, weight in held))
        assert loss == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_a_block_that_only_seems_to_answer_is_pushed_less() -> None:
    """The gradient of the answered blocks is their posterior: where one answers, the other need not."""
    log_pair_P = torch.tensor([math.log(0.9), math.log(0.01)], requires_grad=True)
    question_loss(
        log_pair_P, torch.tensor([True, True]), torch.zeros(2), torch.tensor([[0, 0], [0, 1]]), 1
    ).sum().backward()
    assert log_pair_P.grad is not None
    assert log_pair_P.grad.tolist() == pytest.approx([-0.9 / 0.91, -0.01 / 0.91], rel=1e-4)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(1, 4))
def test_packed_span_values_are_padded_by_block(lengths: list[int], width: int) -> None:
    values_NM = torch.randn(sum(lengths), width, requires_grad=True)
    padded_BS = by_block(values_NM, tuple(lengths))
    for number, own in enumerate(values_NM.split(lengths)):
        read = padded_BS[number].view(-1, width)
        assert torch.equal(read[: len(own)], own) and bool((read[len(own) :] == -math.inf).all())
    padded_BS[torch.isfinite(padded_BS)].sum().backward()
    assert values_NM.grad is not None and bool((values_NM.grad == 1).all())


def test_parts_hold_whole_questions() -> None:
    groups = [
        [row(f"q{number}", -float(rank), "x") for rank in range(size)] for number, size in enumerate((3, 2, 7, 1))
    ]
    parts = batches_of(groups, ModelConfig(), Wordpieces.default(), 5)
    assert [(part.questions, len(part.answered_P)) for part in parts] == [(2, 5), (1, 7), (1, 1)]
    assert parts[0].places_2P.tolist() == [[0, 0, 0, 1, 1], [0, 1, 2, 0, 1]]
    assert all(part.written is None for part in parts)


@pytest.mark.parametrize("processes", [0, 2])
def test_batches_are_made_ahead_and_in_order(processes: int) -> None:
    ahead = Prefetch(lambda step: (step * step, os.getpid()), processes=processes)
    try:
        made = [ahead(step) for step in range(3, 9)]
    finally:
        ahead.close()
    assert [value for value, _ in made] == [step * step for step in range(3, 9)]
    assert (os.getpid() in {process for _, process in made}) == (processes == 0)


def test_blocks_are_learnt_together(tmp_path: Path) -> None:
    """Of a question's blocks one answers; the reader learns which, and that the others do not."""
    model, index, corpus = tiny_deployment(tmp_path)
    asked = [
        {"question": "What is the capital of Bhutan?", "answers": ["Thimphu"], "title": "Bhutan"},
        {"question": "Where was Marie Curie born?", "answers": ["War[a-z]+"], "answer_type": "regex"},
        {"question": "Who ate the moon?", "answers": ["Nobody at all"]},
    ]
    # Only its article is known not to answer the second; another may.
    nowhere = [
        {"question": "Where are my keys?", "answers": []},
        {"question": "How tall was Marie Curie?", "answers": [], "title": "Marie Curie"},
    ]
    for name, questions in (("asked", asked), ("nowhere", nowhere)):
        write_lines(tmp_path / f"{name}.jsonl", questions)
    options = ["--model", model, "--index", index, "--corpus", corpus, "--questions", tmp_path / "asked.jsonl"]
    more = ["--unanswerable", tmp_path / "nowhere.jsonl", "--output", tmp_path / "mined.jsonl"]
    activity_of("mine", [*options, *more, "--set", "together=4", "--set", f"depth={len(ARTICLES)}"])
    groups = grouped(read_rows(tmp_path / "mined.jsonl"))
    assert [group[0].question for group in groups] == sorted(
        {group[0].question for group in groups}, key=[group[0].question for group in groups].index
    )
    by_question = {group[0].question: group for group in groups}
    assert "Who ate the moon?" not in by_question  # no block holds its answer
    tall = by_question.pop("How tall was Marie Curie?")
    assert {one.title for one in tall} == {"Marie Curie"} and not any(one.answers for one in tall)
    for group in by_question.values():
        assert len(group) == 4
        scores = [one.score for one in group[:-1]]
        assert scores == sorted(scores, reverse=True)
    right = [one for group in groups for one in group if one.answers]
    assert {(one.title, one.answers) for one in right} >= {("Bhutan", ("Thimphu",)), ("Marie Curie", ("Warsaw",))}
    assert not any(one.answers for one in by_question["Where are my keys?"])

    settings = ("batch=3", "least_blocks=2", "at_once=6")
    training = arguments(model, tmp_path / "made", *settings, rows=tmp_path / "mined.jsonl")
    activity_of("train-reader", training, run=tmp_path / "run")
    losses = list(metrics(tmp_path / "run", "train-reader.loss").values())
    assert losses[-1] < 0.5 * losses[0]
    assert load_model(tmp_path / "made").config.normalisation == "block+null"


def test_a_score_is_a_number(tmp_path: Path) -> None:
    good: dict[str, object] = {"question": "q", "title": "t", "context": "c", "answers": [], "score": 1}
    assert read_rows(write_lines(tmp_path / "rows.jsonl", [good]))[0].score == 1
    for bad in ("1", True, [1]):
        with pytest.raises(RealmError, match=r"rows\.jsonl, line 2: `score`"):
            read_rows(write_lines(tmp_path / "rows.jsonl", [good, {**good, "score": bad}]))
