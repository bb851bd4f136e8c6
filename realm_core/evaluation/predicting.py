"""Predictions for many questions: each batch is embedded, searched and read together.

The batches of a question file are always the same, so a resumed evaluation makes exactly the same predictions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from realm_core.corpus.records import Block
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.evaluation.figures import RECALL_AT
from realm_core.evaluation.in_corpus import in_corpus
from realm_core.evaluation.predictions import Prediction
from realm_core.evaluation.retrieving import Retrieving
from realm_core.evaluation.why import LOOKED_AT, NOT_READ, Place, Why, explain
from realm_core.living.view import CorpusView
from realm_core.model.config import Normalisation
from realm_core.questions.answers import holds_answer, is_correct
from realm_core.questions.question_file import Question
from realm_core.serving.english.topics import read_as
from realm_core.serving.provenance import Answer
from realm_core.serving.reading import BlockReading, ReadBlock, SearchResult

MOST_RETRIEVED = max(RECALL_AT)
# Pairs per batch: on a GPU enough to sort them by length and keep it busy, few enough to hold all their span logits
# (about 16 kB each); on a CPU larger batches save nothing, and only delay predictions.
_PAIRS_AT_ONCE_GPU = 1280
_PAIRS_AT_ONCE_CPU = 80


class Predictor:
    """Answers questions in batches, as the engine would.

    k: blocks to read. score_scale: factor of the retriever's scores that makes them f(x, z). why: whether predictions
    get a cause; the corpus is searched if no block that was read holds an answer. as_typed: spelling is not
    corrected, and a topic not read as a question.
    """

    def __init__(
        self,
        retriever: Retrieving,
        reading: BlockReading,
        corpus: Snapshot | CorpusView,
        *,
        k: int,
        normalisation: Normalisation,
        score_scale: float = 1.0,
        why: bool = False,
        as_typed: bool = True,
    ) -> None:
        if not 1 <= k <= MOST_RETRIEVED:
            raise RealmError(f"k must be from 1 to {MOST_RETRIEVED}, not {k}.")
        self._retriever, self._reading, self._corpus = retriever, reading, corpus
        self._k, self._normalisation, self._score_scale = k, normalisation, score_scale
        self._why, self._as_typed = why, as_typed
        pairs = _PAIRS_AT_ONCE_GPU if reading.device.type == "cuda" else _PAIRS_AT_ONCE_CPU
        self._questions_at_once = max(1, pairs // k)

    def predictions(self, questions: Sequence[Question], *, first: int = 0) -> Iterator[Prediction]:
        """Predictions from question number `first` (counted from 0) on, in order."""
        size = self._questions_at_once
        for start in range(first // size * size, len(questions), size):
            yield from self._batch(questions[start : start + size])[max(0, first - start) :]

    def read(self, questions: Sequence[Question]) -> Iterator[tuple[Question, list[ReadBlock]]]:
        """Each question with its k blocks as the reader gets them."""
        size = self._questions_at_once
        for start in range(0, len(questions), size):
            batch = questions[start : start + size]
            to_read = list(map(self._to_read, self._found(batch, self._k)))
            yield from zip(batch, self._reading.read(to_read), strict=True)

    def _found(self, batch: Sequence[Question], k: int) -> list[SearchResult]:
        return self._retriever.find([question.question for question in batch], k, as_typed=self._as_typed)

    def _batch(self, batch: Sequence[Question]) -> list[Prediction]:
        started = time.perf_counter()
        found = self._found(batch, MOST_RETRIEVED)
        to_read = list(map(self._to_read, found))
        with torch.inference_mode():
            answers = [
                self._reading.answer(one.question, blocks, self._normalisation)
                for one, blocks in zip(to_read, self._reading.read(to_read), strict=True)
            ]
        ms = (time.perf_counter() - started) / len(batch) * 1e3  # without the search for answers below
        predictions = [
            _prediction(question, answer, _answer_rank(question, one.blocks), ms)
            for question, answer, one in zip(batch, answers, found, strict=True)
        ]
        if not self._why:
            return predictions
        return [
            replace(prediction, why=self._explained(question, answer, prediction.answer_rank))
            for question, answer, prediction in zip(batch, answers, predictions, strict=True)
        ]

    def _explained(self, question: Question, answer: Answer, rank: int | None) -> Why:
        """rank: of the first block with a right answer, among `MOST_RETRIEVED`."""
        why = explain(answer, question.answers, question.answer_type)
        if why.cause != NOT_READ:
            return why
        if rank is None:
            [found] = self._retriever.find([answer.question], LOOKED_AT)
            rank = _answer_rank(question, found.blocks)
        stands = rank is not None or in_corpus(self._corpus, question.answers, question.answer_type)
        return explain(answer, question.answers, question.answer_type, place=Place(stands, rank))

    def _to_read(self, found: SearchResult) -> SearchResult:
        """What the reader gets of a search."""
        blocks = found.blocks[: self._k]
        question = found.question if self._as_typed else read_as(found.question, blocks)
        return SearchResult(question, blocks, [score * self._score_scale for score in found.scores[: self._k]])


def _answer_rank(question: Question, blocks: Sequence[Block]) -> int | None:
    ranked = enumerate(blocks, start=1)
    right, kind = question.answers, question.answer_type
    return next((rank for rank, block in ranked if holds_answer(block.text, right, kind)), None)


def _prediction(question: Question, answer: Answer, answer_rank: int | None, ms: float) -> Prediction:
    best, given = answer.answers[0] if answer.answers else None, answer.answer is not None
    right = best is not None and is_correct(best.text, question.answers, question.answer_type)
    return Prediction(
        question=question.question,
        answers=question.answers,
        answer_type=question.answer_type,
        prediction=best.text if best else "",
        probability=best.probability if best else 0.0,
        no_answer_probability=answer.no_answer_probability,
        given=given,
        right=right if question.answers else not given,
        answer_rank=answer_rank,
        blocks=tuple(block.title for block in answer.evidence),
        block_ids=tuple(block.block_id for block in answer.evidence),
        ms=ms,
        confidence=answer.confidence or 0.0,
    )
