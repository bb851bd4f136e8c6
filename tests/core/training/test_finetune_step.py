"""A step of fine-tuning against its formulas, written out as loops over Python floats, one pair of texts at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from realm_core.model.checkpoint import new_model
from realm_core.questions.answers import holds_answer
from realm_core.training import finetune_step
from realm_core.training.finetune_step import FinetuneStep, Ranking, Supervised
from tests.core.model import formulas
from tests.core.training.finetune_scene import (
    ASKED,
    WORDPIECES,
    World,
    by_score,
    pair_logs,
    read_by_hand,
    reader_log,
    retriever_log,
    supervised,
)
from tests.tiny import ARTICLES

pytestmark = pytest.mark.usefixtures("in_float32")


@pytest.fixture(autouse=True)
def no_gradients_are_left(world: World) -> Iterator[None]:
    yield
    for part in (world.model.query, world.model.reader):
        part.zero_grad()


# ── The loss ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("supply", [True, False])
@pytest.mark.parametrize("beam", [0, 4])
@pytest.mark.parametrize("normalisation", ["block", "joint", "block+null"])
def test_the_loss_is_the_sum_of_its_three_terms(world: World, normalisation: str, beam: int, supply: bool) -> None:
    step = world.step(normalisation=normalisation, beam=beam, supply=supply, pairs=0.3, excluded=[0])
    ones = [read_by_hand(world, i, excluded=[0], supply=supply) for i in range(len(ASKED))]
    retriever = [retriever_log(one, beam) for one in ones]
    reader = [reader_log(one, normalisation) for one in ones]
    pairs = [value for one in ones for value in pair_logs(one)]
    wanted = -(math.fsum(retriever) + math.fsum(reader)) / len(ones) - 0.3 * math.fsum(pairs) / len(pairs)
    loss, figures = step(world.without([0]))
    assert loss.item() == pytest.approx(wanted, rel=1e-4)
    # each term by itself: those for which nothing is right have none of it
    assert figures["retriever_loss"] == pytest.approx(-math.fsum(retriever) / len(ones), rel=1e-4)
    assert figures["reader_loss"] == pytest.approx(-math.fsum(reader) / len(ones), rel=1e-4)
    assert figures["pair_loss"] == pytest.approx(-math.fsum(pairs) / len(pairs), rel=1e-4)
    assert figures["answerable"] == pytest.approx(sum(map(bool, reader)) / len(ones))
    assert figures["sequences"] == len(ones)
    answerable = sum(map(bool, reader))
    assert (answerable == 12 if supply else 0 < answerable < 12) and 0 in reader  # both kinds of questions are there


def test_where_nothing_is_right_only_the_pairs_teach(world: World) -> None:
    loss, figures = world.step()(world.questions[-1:])
    assert (figures["retriever_loss"], figures["reader_loss"], figures["answerable"]) == (0, 0, 0)
    assert loss.item() == pytest.approx(0.5 * figures["pair_loss"])
    nothing, _ = world.step(pairs=0)(world.questions[-1:])
    nothing.backward()
    assert nothing.item() == 0
    assert all(p.grad is None or not p.grad.any() for p in world.model.reader.parameters())
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in world.model.query.parameters())


@pytest.mark.parametrize("at_once", [1, 4, 5])
def test_the_loss_of_a_batch_is_that_of_its_parts(world: World, at_once: int) -> None:
    """What the loop relies on when it works a batch off in parts."""
    step, batch = world.step(), world.questions
    parts = [batch[start : start + at_once] for start in range(0, len(batch), at_once)]
    with torch.no_grad():
        added = math.fsum(step(part)[0].item() * len(part) / len(batch) for part in parts)
        assert added == pytest.approx(step(batch)[0].item(), rel=1e-5)


def test_in_bfloat16_it_is_nearly_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.no_grad():
        precise = world.step()(world.questions)[0].item()
        monkeypatch.setattr(finetune_step, "fast_dtype", lambda device: torch.bfloat16)
        fast = world.step()(world.questions)[0].item()
    assert fast != precise and fast == pytest.approx(precise, rel=0.05)


def test_an_answer_behind_the_cut_cannot_be_read(world: World) -> None:
    asked = [(f"{question} {question}", answer) for question, answer in ASKED]  # so that little is left for the body
    long = replace(world, asked=asked, questions=supervised(world.snapshot, world.tokens, asked))
    step = long.step(reader_wordpieces=32, k=12, supply=False)
    ones = [read_by_hand(long, i, supply=False, k=12, limit=32) for i in range(len(asked))]
    readable = [any(map(any, one.correct_KS)) for one in ones]
    assert [bool(step([one])[1]["answerable"]) for one in long.questions] == readable
    assert 3 <= sum(readable) <= 10  # others are cut off


def test_an_answer_wider_than_any_span_cannot_be_read(world: World) -> None:
    narrow = new_model(replace(world.model.config, span_wordpieces=2)).reader
    step = world.step(reader=narrow, k=12)
    for one, (_, answer) in zip(world.questions, ASKED, strict=True):
        pieces = len(WORDPIECES.ids([answer.removeprefix("the ")])[0])
        assert step([one])[1]["answerable"] == (pieces <= 2 and answer != "Nobody at all")
    assert sum(step([one])[1]["answerable"] for one in world.questions) in range(3, 12)


# ── Gradients ───────────────────────────────────────────────────────────────────────────────────────────────────────


def gradient_by_scores(
    world: World, monkeypatch: pytest.MonkeyPatch, step: FinetuneStep, batch: list[Supervised]
) -> Tensor:
    """∂ loss / ∂ f(x, z), [B, N]."""
    with torch.no_grad():
        scores_BN = step._scores(batch)
    leaf_BN = scores_BN.requires_grad_()
    monkeypatch.setattr(step, "_scores", lambda _: leaf_BN)
    step(batch)[0].backward()
    assert leaf_BN.grad is not None
    return leaf_BN.grad


@pytest.mark.parametrize("beam", [0, 4])
def test_the_retrievers_gradient_is_posterior_less_prior(
    world: World, monkeypatch: pytest.MonkeyPatch, beam: int
) -> None:
    """Where no block read is right, the reader's term is nothing: −∂ loss / ∂ f = (posterior − prior) / B."""
    ones = {i: read_by_hand(world, i, supply=False) for i in range(len(ASKED))}
    unread = [i for i, one in ones.items() if not any(map(any, one.correct_KS))]
    assert len(unread) > 5
    step = world.step(pairs=0, beam=beam, supply=False)
    gradient_BN = gradient_by_scores(world, monkeypatch, step, [world.questions[i] for i in unread])
    for gradient_N, i in zip(gradient_BN, unread, strict=True):
        best = by_score(ones[i].scores_N)[: beam or None]
        prior = dict(zip(best, formulas.softmax([ones[i].scores_N[n] for n in best]), strict=True))
        right = math.fsum(p for n, p in prior.items() if ones[i].right_N[n])
        posterior = {n: p * ones[i].right_N[n] / right for n, p in prior.items()} if right else prior
        wanted = [(posterior.get(n, 0.0) - prior.get(n, 0.0)) / len(unread) for n in range(12)]
        assert (-gradient_N).tolist() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("normalisation", ["block", "joint", "block+null"])
def test_the_readers_marginal_moves_the_scores_of_the_blocks_read(
    world: World, monkeypatch: pytest.MonkeyPatch, normalisation: str
) -> None:
    """Its share of −∂ loss / ∂ f is posterior − weight of the blocks read, again divided by B."""
    step = world.step(normalisation=normalisation)
    gradient_BN = gradient_by_scores(world, monkeypatch, step, world.questions[:12])
    for i, gradient_N in enumerate(gradient_BN):
        one = read_by_hand(world, i, supply=True)
        prior = formulas.softmax(one.scores_N)
        right = math.fsum(p for p, is_right in zip(prior, one.right_N, strict=True) if is_right)
        wanted = [p * is_right / right - p for p, is_right in zip(prior, one.right_N, strict=True)]
        weights, likelihoods, _ = formulas.reading(one.logits_KS, one.scores_K, normalisation)
        answer_K = [
            math.fsum(p for p, is_right in zip(*own, strict=True) if is_right)
            for own in zip(likelihoods, one.correct_KS, strict=True)
        ]
        for row, after, before in zip(one.rows, formulas.posterior(weights, answer_K), weights, strict=True):
            wanted[row] += after - before
        assert (-gradient_N * 12).tolist() == pytest.approx(wanted, abs=2e-4)


def test_gradients_reach_query_embedder_and_reader_and_no_block(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.matrix_ND.clone()
    step = world.step()
    step(world.questions)[0].backward()
    for part, of_spans in ((world.model.query, ()), (world.model.reader, ("norm.bias", "score.bias"))):
        for name, parameter in part.named_parameters():
            assert parameter.grad is not None, name
            # What is added to all scores of a query's keys, or to those of all spans, no softmax notices.
            if name.endswith("attention.self.key.bias") or name in of_spans:
                assert parameter.grad.abs().max() < 1e-4, name
            else:
                assert parameter.grad.any(), name
    assert not world.matrix_ND.requires_grad and torch.equal(world.matrix_ND, before)
    assert sum(p.numel() for p in step.parameters()) == sum(
        p.numel() for part in (world.model.query, world.model.reader) for p in part.parameters()
    )
    # f = (normalised + bias) · z, so the gradient of the bias is Σ ∂ loss / ∂ f · z
    bias = world.model.query.norm.bias.grad
    gradient_BN = gradient_by_scores(world, monkeypatch, world.step(), world.questions)
    torch.testing.assert_close(bias, (gradient_BN @ world.matrix_ND).sum(0), rtol=1e-3, atol=1e-4)


# ── Which blocks are read ───────────────────────────────────────────────────────────────────────────────────────────


def rows_read(step: FinetuneStep, batch: list[Supervised], *, supply: bool) -> list[list[int]]:
    with torch.no_grad():
        rows: list[list[int]] = step.read(batch, step._scores(batch), supply=supply).rows_BK.tolist()
    return rows


def test_a_right_block_is_read_in_the_last_place_where_the_best_hold_none(world: World) -> None:
    best = rows_read(world.step(), world.questions, supply=False)
    supplied = rows_read(world.step(), world.questions, supply=True)
    changed = 0
    for i, (without, rows) in enumerate(zip(best, supplied, strict=True)):
        assert without == read_by_hand(world, i, supply=False).rows
        assert rows == read_by_hand(world, i, supply=True).rows
        assert rows[:-1] == without[:-1]
        changed += rows != without
    assert 0 < changed < len(best) - 1 and best[-1] == supplied[-1]  # of the last one no block is right


@settings(max_examples=20)
@given(excluded=st.sets(st.integers(0, 11), max_size=11), k=st.sampled_from([1, 3, 12]), supply=st.booleans())
def test_excluded_blocks_are_never_read(world: World, excluded: set[int], k: int, supply: bool) -> None:
    step, batch = world.step(excluded=sorted(excluded), k=k), world.without(sorted(excluded))[8:]
    for rows in rows_read(step, batch, supply=supply):
        assert not set(rows) & excluded and len(rows) == min(k, 12 - len(excluded)) == len(set(rows))
    with torch.no_grad():
        assert torch.isfinite(step(batch)[0])


# ── Figures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("normalisation", ["block", "joint", "block+null"])
def test_figures_are_recall_and_whether_the_best_span_is_right(world: World, normalisation: str) -> None:
    figures = world.step(normalisation=normalisation).figures(world.questions)
    for i, own in enumerate(figures):
        one = read_by_hand(world, i, supply=False)
        for k in (1, 5, 20):
            assert own[f"recall@{k}"] == any(one.right_N[n] for n in by_score(one.scores_N)[:k])
        weights, likelihoods, _ = formulas.reading(one.logits_KS, one.scores_K, normalisation)
        joint = [w * p for w, row in zip(weights, likelihoods, strict=True) for p in row]
        assert own["span"] == [right for row in one.correct_KS for right in row][joint.index(max(joint))]
    assert {own["recall@5"] for own in figures} == {True, False}


def test_the_best_span_is_right_where_only_right_ones_are_likely(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    step = world.step(k=12)
    with torch.no_grad():
        read = step.read(world.questions, step._scores(world.questions), supply=False)
    told = replace(
        read, logits_BKS=read.logits_BKS.clamp(max=0) + 50.0 * read.correct_BKS, scores_BK=read.scores_BK * 0
    )
    monkeypatch.setattr(step, "read", lambda *_, **__: told)
    assert [own["span"] for own in step.figures(world.questions)] == [True] * 13 + [False]


# ── Blocks that another retriever ranked ────────────────────────────────────────────────────────────────────────────


def test_ranked_blocks_are_read_by_their_scores_and_the_query_embedder_is_not_asked(world: World) -> None:
    ranking = Ranking(np.array([4, 7, 1, 9]), np.array([3.0, 2.0, 0.5, 0.25], np.float32))
    batch = [replace(one, ranking=ranking) for one in world.questions[:2]]
    step = world.step(ranked=True, excluded=[7], pairs=0, k=2)
    assert rows_read(step, batch, supply=False) == [[4, 1]] * 2
    scores_N = [0.25] * 12  # what is not ranked has at most the last one's score
    scores_N[4], scores_N[1], scores_N[7] = 3.0, 0.5, -math.inf
    loss, figures = step(batch)
    loss.backward()
    right = [[holds_answer(text, [answer]) for text in ARTICLES.values()] for _, answer in ASKED[:2]]
    titles = world.snapshot.titles_texts(0, 12)[0]
    assert titles == list(ARTICLES)
    shares = formulas.softmax(scores_N)
    logs = [math.log(math.fsum(p for p, is_right in zip(shares, own, strict=True) if is_right)) for own in right]
    assert figures["retriever_loss"] == pytest.approx(-sum(logs) / 2, rel=1e-5)
    assert all(parameter.grad is None for parameter in world.model.query.parameters())
    assert world.model.reader.score.weight.grad is not None
