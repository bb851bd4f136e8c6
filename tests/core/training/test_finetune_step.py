"""A step of fine-tuning against its formulas, written out as loops over Python floats, one pair of texts at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from realm_core.activity import Activity
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import BlockTokens, open_tokens
from realm_core.evaluation.answers import holds_answer
from realm_core.index.embedding import embed
from realm_core.index.generation import Generation
from realm_core.model.checkpoint import Model, load_model, new_model
from realm_core.model.joining import Joiner
from realm_core.model.pairs import ReadingPair, collate
from realm_core.model.reader import Reader
from realm_core.text.joins import join_query
from realm_core.text.wordpieces import Wordpieces
from realm_core.training import finetune_step
from realm_core.training.finetune_step import FinetuneStep, Ranking, Supervised
from realm_core.training.occurrences import Expressions, ExpressionSearch, OccurrenceFinder
from realm_core.training.questions import Question
from tests.core.conftest import Deployment
from tests.core.model import formulas
from tests.core.training.material import QUESTIONS
from tests.tiny import ARTICLES

WORDPIECES = Wordpieces.default()
CPU = torch.device("cpu")
K = 3
# the tiny corpus's questions, one with two right blocks, and one that nothing answers
ASKED = [
    *((question, answer) for question, answer, _ in QUESTIONS),
    ("Through which country does it flow?", "Egypt"),
    ("Who knows?", "Nobody at all"),
]


@dataclass(frozen=True, eq=False)
class World:
    """What a step is made of."""

    model: Model
    snapshot: Snapshot
    tokens: BlockTokens
    matrix_ND: Tensor
    asked: list[tuple[str, str]]
    questions: list[Supervised]

    def without(self, excluded: Sequence[int]) -> list[Supervised]:
        """The questions, answered by the other blocks."""
        excluded_N = np.isin(np.arange(len(self.snapshot)), excluded)
        return [replace(one, occurrences=one.occurrences.without(excluded_N)) for one in self.questions]

    def step(
        self, *, excluded: Sequence[int] = (), reader: Reader | None = None, ranked: bool = False, **settings: Any
    ) -> FinetuneStep:
        """A step with these settings of its own and of the model's."""
        excluded_N = torch.zeros(len(self.snapshot), dtype=torch.bool)
        excluded_N[list(excluded)] = True
        own = {name: settings.pop(name) for name in ("normalisation", "reader_wordpieces") if name in settings}
        made = FinetuneStep(
            replace(self.model.config, **own),
            self.model.query,
            reader or self.model.reader,
            Joiner(self.tokens, CPU),
            None if ranked else self.matrix_ND,
            excluded_N,
            **{"k": K, "beam": 0, "pairs": 0.5, "supply": True, **settings},
        )
        return made.eval()


@pytest.fixture(autouse=True)
def in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine can do: formulas are compared to many digits."""
    monkeypatch.setattr(finetune_step, "fast_dtype", lambda device: torch.float32)


@pytest.fixture(scope="module")
def world(deployment: Deployment) -> World:
    snapshot = Snapshot.open(deployment.corpus)
    tokens = open_tokens(snapshot, Activity(quiet=True))
    vectors = Generation.open(deployment.index).vectors_ND.float()
    questions = supervised(snapshot, tokens, ASKED)
    return World(load_model(deployment.model), snapshot, tokens, vectors, ASKED, questions)


def supervised(snapshot: Snapshot, tokens: BlockTokens, asked: list[tuple[str, str]]) -> list[Supervised]:
    finder = OccurrenceFinder(snapshot, tokens)
    found = [finder.find(Question(question, (answer,)), list) for question, answer in asked]
    ids = WORDPIECES.ids([question for question, _ in asked])
    return [Supervised(own, occurrences, "tiny") for own, occurrences in zip(ids, found, strict=True)]


@pytest.fixture(autouse=True)
def no_gradients_are_left(world: World) -> Iterator[None]:
    yield
    for part in (world.model.query, world.model.reader):
        part.zero_grad()


# ── By hand ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ByHand:
    """What is read for one question: blocks, scores of all blocks, span logits of the blocks read, which are right."""

    rows: list[int]
    scores_N: list[float]
    logits_KS: list[list[float]]
    correct_KS: list[list[bool]]
    right_N: list[bool]

    @property
    def scores_K(self) -> list[float]:
        return [self.scores_N[row] for row in self.rows]


@cache
def spans_by_hand(world: World, number: int, row: int, limit: int) -> tuple[list[float], list[bool]]:
    """Logits of all spans of one block, read by itself, and which of them read the answer."""
    question, answer = world.asked[number]
    block = world.snapshot.block(row)
    encoded = WORDPIECES.encode([question, block.title, block.text])
    pair = ReadingPair.of(WORDPIECES, replace(world.model.config, reader_wordpieces=limit), *encoded)
    with torch.no_grad():
        logits_LM = world.model.reader(*collate([pair]))
    logits, correct = [], []
    for first, row_M in enumerate(logits_LM.tolist()):
        for last, logit in enumerate(row_M, start=first):
            logits.append(logit)
            correct.append(
                math.isfinite(logit)
                and block.text[pair.offsets[first][0] : pair.offsets[last][1]] == answer.removeprefix("the ")
            )
    return logits, correct


def read_by_hand(
    world: World, number: int, *, excluded: Sequence[int] = (), supply: bool, k: int = K, limit: int = 384
) -> ByHand:
    """Embed, take the best, read each block by itself, and look at what the spans read."""
    question, answer = world.asked[number]
    with torch.no_grad():
        vector = embed(world.model.query, join_query(WORDPIECES, [question], 64))[0]
    scores = [-math.inf if n in excluded else float(vector @ z) for n, z in enumerate(world.matrix_ND)]
    texts = world.snapshot.titles_texts(0, len(world.snapshot))[1]
    right = [holds_answer(text, [answer]) and n not in excluded for n, text in enumerate(texts)]
    rows = by_score(scores)[:k]
    if supply and any(right) and not any(right[row] for row in rows):
        rows[-1] = next(n for n in by_score(scores) if right[n])
    read = [spans_by_hand(world, number, row, limit) for row in rows]
    longest = max(len(logits) for logits, _ in read)
    logits_KS = [logits + [-math.inf] * (longest - len(logits)) for logits, _ in read]
    correct_KS = [correct + [False] * (longest - len(correct)) for _, correct in read]
    return ByHand(rows, scores, logits_KS, correct_KS, right)


def by_score(scores: Sequence[float]) -> list[int]:
    """Blocks, best first."""
    return sorted(range(len(scores)), key=lambda n: -scores[n])


def log(probability: float) -> float:
    """Of nothing correct: nothing is lost."""
    return math.log(probability) if probability else 0.0


def retriever_log(one: ByHand, beam: int) -> float:
    """log of what the right blocks share of the beam's softmax."""
    best = by_score(one.scores_N)[: beam or None]
    shares = formulas.softmax([one.scores_N[n] for n in best])
    return log(math.fsum(share for share, n in zip(shares, best, strict=True) if one.right_N[n]))


def reader_log(one: ByHand, normalisation: str) -> float:
    """log Σ over the blocks read and their right spans of weight × likelihood."""
    weights, likelihoods, _ = formulas.reading(one.logits_KS, one.scores_K, normalisation)
    return log(
        math.fsum(
            weight * likelihood
            for weight, own, right in zip(weights, likelihoods, one.correct_KS, strict=True)
            for likelihood, is_right in zip(own, right, strict=True)
            if is_right
        )
    )


def pair_logs(one: ByHand) -> list[float]:
    """For each block read log p(right spans), or of "not here", among its spans and "not here"."""
    logs = []
    for logits, right in zip(one.logits_KS, one.correct_KS, strict=True):
        *spans, null = formulas.softmax([*logits, 0.0])
        logs.append(math.log(math.fsum(p for p, is_right in zip(spans, right, strict=True) if is_right) or null))
    return logs


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
    # each term by itself, of those for which anything is right
    assert figures["retriever_loss"] == pytest.approx(-math.fsum(retriever) / sum(map(bool, retriever)), rel=1e-4)
    assert figures["reader_loss"] == pytest.approx(-math.fsum(reader) / sum(map(bool, reader)), rel=1e-4)
    assert figures["pair_loss"] == pytest.approx(-math.fsum(pairs) / len(pairs), rel=1e-4)
    assert figures["answerable"] == pytest.approx(sum(map(bool, reader)) / len(ones))
    assert figures["sequences"] == len(ones)
    assert sum(map(bool, reader)) == (12 if supply else 5) and 0 in reader  # both kinds of questions are there


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


# ── Expressions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def with_expressions(world: World, number: int, candidates: int) -> tuple[Supervised, list[int]]:
    """A question whose expression matches every block that holds "the", known of the worst ones so far, and its ranks.

    candidates: how many blocks have been looked at, from the worst upwards.
    """
    question, _ = world.asked[number]
    ranked = by_score(read_by_hand(world, number, supply=False).scores_N)
    expressions = Expressions(Question(question, (r"\bthe\b",), "regex"), ExpressionSearch(world.snapshot))
    known = expressions.within(ranked[len(ranked) - candidates :])
    return replace(world.questions[number], occurrences=known, expressions=expressions), ranked


def test_blocks_in_which_expressions_were_not_looked_for_are_not_wrong(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finetune_step, "EXAMINED", 5)
    texts = world.snapshot.titles_texts(0, len(world.snapshot))[1]
    right_outside = 0
    for number in range(5):
        one, ranked = with_expressions(world, number, 3)
        matching = [row for row in ranked if " the " in f" {texts[row].lower()} "]
        right_outside += sum(row in ranked[:5] for row in matching)
        scores = read_by_hand(world, number, supply=False).scores_N
        for beam in (0, 4):
            best = ranked[: min(5, beam or 5)]
            shares = formulas.softmax([scores[row] for row in best])
            wanted = -log(math.fsum(share for share, row in zip(shares, best, strict=True) if row in matching))
            figures = world.step(beam=beam, supply=False)([one])[1]
            assert figures["retriever_loss"] == pytest.approx(wanted, rel=1e-4, abs=1e-6)
            assert bool(figures["answerable"]) == any(row in matching for row in ranked[:K])
        (figures_of,) = world.step().figures([one])
        assert [figures_of[f"recall@{k}"] for k in (1, 5)] == [any(r in matching for r in ranked[:k]) for k in (1, 5)]
    assert right_outside > 2


def test_excluded_blocks_match_nothing(world: World) -> None:
    one, ranked = with_expressions(world, 0, 0)
    matching = one.within(np.array(ranked), np.zeros(len(ranked), np.bool_)).blocks().tolist()
    assert len(matching) > 1
    (figures,) = world.step(excluded=matching).figures([one])
    assert not figures["recall@20"]


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
    for part in (world.model.query, world.model.reader):
        for name, parameter in part.named_parameters():
            if "attention.self.key.bias" not in name:  # which no softmax notices
                assert parameter.grad is not None and parameter.grad.any(), name
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
    assert changed == 8 and best[-1] == supplied[-1]  # of the last one no block is right


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
