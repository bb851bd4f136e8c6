"""A world to fine-tune in, and what a step should make of it, written out as loops over Python floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import BlockTokens, open_tokens
from realm_core.index.embedding import embed
from realm_core.index.generation import Generation
from realm_core.model.checkpoint import Model, load_model
from realm_core.model.joiner import Joiner
from realm_core.model.pairs import ReadingPair, collate
from realm_core.model.reader import Reader
from realm_core.questions.answers import holds_answer
from realm_core.questions.question_file import Question
from realm_core.runs.activity import Activity
from realm_core.text.joins import join_query
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.config import FinetuneConfig
from realm_core.training.finetune_step import FinetuneStep, Supervised
from realm_core.training.occurrences import OccurrenceFinder
from tests.core.conftest import Deployment
from tests.core.model import formulas
from tests.core.training.material import QUESTIONS

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
            FinetuneConfig(**{"k": K, "pairs": 0.5, **settings}),
        )
        return made.eval()


def make_world(deployment: Deployment) -> World:
    """Of the tiny deployment."""
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
    # Without the text no sentence is told from the next: `finetune` works on stored wordpieces and knows none.
    pair = ReadingPair.of(WORDPIECES, replace(world.model.config, reader_wordpieces=limit), *encoded, "")
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
