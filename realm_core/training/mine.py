"""Reading rows from question files: `python -m realm_core mine`.

For each question, what the reader is to learn from:

    its own passage, if the set has one, cut to a few sentences around an answer             → the answer
    otherwise a retrieved block that holds an answer's string (`depth`)                      → the answer
    retrieved blocks (`read`) and a passage of the same article, without an answer           → "not here"
    the best blocks of a question without an answer (with a title: of that article)          → "not here"
    the question with its article's title replaced by another's, with that article's block   → "not here"

With `together`, instead, the best blocks of each question as rows that are learnt together. A question's own passage is
then not used; one without an answer among its blocks is left out.

A match far down the ranking is mostly a coincidence (for Natural Questions half of the best string matches are below
rank 20), so blocks beyond `depth` are not used. Without `agreement` the highest match is used. With it, the model's own
reader reads the first `candidates` of them; the one with the highest posterior p(z|y, x) is used, and none if the
reader does not find the answer in it. The last kind are questions with a false premise.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from realm_core.corpus.records import Block
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import refuse_existing, replaced
from realm_core.index.corpus_of import corpus_of
from realm_core.index.generation import Generation
from realm_core.index.retriever import DenseRetriever, check_manifest_fits
from realm_core.model.checkpoint import Model, load_model
from realm_core.model.device import fast_dtype, pick_device
from realm_core.model.marginal import log_pair_reading
from realm_core.questions.answers import answer_pattern, holds_answer, normalise_answer
from realm_core.questions.matching import NormalText, answer_spans
from realm_core.questions.question_file import Question
from realm_core.runs.activity import Activity
from realm_core.serving.reading import BlockReading, ReadBlock, SearchResult
from realm_core.text.sentences import sentence_spans
from realm_core.training.config import MineConfig
from realm_core.training.learnt_questions import LeftOut
from realm_core.training.reading_rows import ReadingRow
from realm_core.training.tasks import Mine

_QUESTIONS_AT_ONCE = 256
_LEAST_TITLE = 4  # characters; shorter titles are not replaced


def main(task: Mine, activity: Activity) -> None:
    """Write the rows and report how many of each kind there are."""
    config = task.settings
    refuse_existing(task.output)
    left_out = LeftOut.of(task.without, task.exclude_titles)
    questions: list[Question] = []
    for path in (*task.questions, *task.unanswerable):
        answerable = path not in task.unanswerable
        questions += left_out.rest(path, answerable=answerable, seed=config.seed, take=config.take.get(path.stem))
    snapshot = Snapshot.verified(corpus_of(task.index, task.corpus))
    generation = Generation.open(task.index)
    model = load_model(task.model, frozen=fast_dtype(pick_device("auto")))
    check_manifest_fits(model, generation.manifest, snapshot)
    if config.agreement and not model.config.not_here:
        raise RealmError(f"agreement must be 0: {task.model} has no score of “not here” to compare answers with.")
    reader = _AgreeingReader(model) if config.agreement else None
    miner = _Miner(config, DenseRetriever(model, generation), snapshot, left_out.titles, reader)
    counts: dict[str, int] = defaultdict(int)
    with replaced(task.output) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for kind, row in miner.rows(questions, activity):
            counts[kind] += 1
            value = {"question": row.question, "title": row.title, "context": row.context, "answers": row.answers}
            score = {} if row.score is None else {"score": round(row.score, 4)}
            print(json.dumps({**value, **score}, ensure_ascii=False), file=file)
    activity.say(f"{task.output}: " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items())))
    activity.result({"path": str(task.output), "rows": dict(counts)})


@dataclass(frozen=True)
class _Retrieved:
    """A block retrieved for a question. held: whether it holds the string of an answer."""

    block: Block
    score: float
    held: bool

    @property
    def normal_title(self) -> str:
        return normalise_answer(self.block.title)


class _AgreeingReader:
    """The model's own reader, which decides which block holds a question's answer."""

    def __init__(self, model: Model) -> None:
        # Without calibration, as in training: a calibrated reader asks for more than that a block holds the answer.
        config = dataclasses.replace(model.config, reading_temperature=1.0, reading_bias=0.0, prior_temperature=1.0)
        model.reader.for_inference(pick_device("auto"))
        self._reading = BlockReading(model.reader, config, model="", index="", corpus="")
        self._widest = config.span_wordpieces

    def chosen(
        self, asked: Sequence[tuple[Question, Sequence[Block], Sequence[float]]], least: float
    ) -> list[Block | None]:
        """For each (question, blocks, their f(x, z)) the block with the highest posterior p(z|y, x).

        None where p(y|z, x) of that block is below `least`.
        """
        found = [SearchResult(question.question, blocks, scores) for question, blocks, scores in asked]
        chosen: list[Block | None] = []
        for (question, *_), read in zip(asked, self._reading.read(found), strict=True):
            likelihoods = [(self._log_likelihood(question, block), block) for block in read]
            best = max(likelihoods, key=lambda one: one[0] + one[1].score, default=None)
            chosen.append(best[1].block if best is not None and best[0] >= math.log(least) else None)
        return chosen

    def _log_likelihood(self, question: Question, read: ReadBlock) -> float:
        """log p(y|z, x) of all spans that read an answer, normalised over the block's spans and "not here"."""
        text, width = read.block.text, read.logits_LM.shape[1]
        correct_LM = torch.zeros_like(read.logits_LM, dtype=torch.bool)
        for first, last in answer_spans(
            text, NormalText.of(text), read.body, question.answers, question.answer_type, self._widest
        ):
            if first < len(correct_LM) and last - first < width:
                correct_LM[first, last - first] = True
        correct_LM &= torch.isfinite(read.logits_LM)
        if not correct_LM.any():
            return -math.inf
        return float(log_pair_reading(read.logits_LM.flatten().unsqueeze(0), correct_LM.flatten().unsqueeze(0)))


class _Miner:
    """Makes the rows of questions. excluded: normalised titles whose blocks are not used.

    reader: has to agree that a block holds an answer; None: a match of the string is enough.
    """

    def __init__(
        self,
        config: MineConfig,
        retriever: DenseRetriever,
        snapshot: Snapshot,
        excluded: frozenset[str],
        reader: _AgreeingReader | None,
    ) -> None:
        self._config, self._retriever, self._snapshot, self._excluded = config, retriever, snapshot, excluded
        self._reader = reader
        self._draw = random.Random(config.seed)

    def rows(self, questions: Sequence[Question], activity: Activity) -> Iterator[tuple[str, ReadingRow]]:
        """(kind, row), question by question."""
        passages: dict[str, list[str]] = defaultdict(list)
        for question in questions:
            if question.context and question.title and question.context not in passages[question.title]:
                passages[question.title].append(question.context)
        for start in range(0, len(questions), _QUESTIONS_AT_ONCE):
            activity.check()
            batch = questions[start : start + _QUESTIONS_AT_ONCE]
            retrieved = self._retrieved(batch)
            if self._config.together:
                for question, blocks in zip(batch, retrieved, strict=True):
                    yield from self._rows_together(question, blocks)
                activity.progress(start + len(batch), len(questions), "questions")
                continue
            right = self._right(batch, retrieved)
            for question, blocks, block in zip(batch, retrieved, right, strict=True):
                yield from self._rows_of(question, blocks, block, passages.get(question.title or "", []))
            activity.progress(start + len(batch), len(questions), "questions")

    def _retrieved(self, batch: Sequence[Question]) -> list[list[_Retrieved]]:
        rows, scores = self._retriever.search([question.question for question in batch], self._config.depth)
        return [
            [
                _Retrieved(block, score, holds_answer(block.text, question.answers, question.answer_type))
                for block, score in ((self._snapshot.block(row), score) for row, score in zip(*ranking, strict=True))
                if normalise_answer(block.title) not in self._excluded
            ]
            for question, *ranking in zip(batch, rows, scores, strict=True)
        ]

    def _rows_together(self, question: Question, retrieved: Sequence[_Retrieved]) -> Iterator[tuple[str, ReadingRow]]:
        """The best blocks of a question, one of which holds an answer if the question has any; otherwise nothing.

        The answer's string in another article than the question's own is neither right nor “not here”. A question
        without an answer, which only its own article is known not to give, has that article's blocks alone.
        """
        own = None if question.title is None else normalise_answer(question.title)
        blocks = [one for one in retrieved if own in (None, one.normal_title) or (question.answers and not one.held)]
        best = blocks[: self._config.together]
        if question.answers and not any(one.held for one in best):
            first = next((one for one in blocks if one.held), None)
            if first is None:
                return
            best = [*best[:-1], first]
        kind = "of questions' blocks" if question.answers else "of unanswerable questions"
        for one in best:
            answers = answer_strings(question, one.block.text) if one.held else ()
            yield kind, ReadingRow(question.question, one.block.title, one.block.text, answers, score=one.score)

    def _right(self, batch: Sequence[Question], retrieved: Sequence[Sequence[_Retrieved]]) -> list[Block | None]:
        """For each question without its own passage, the block assumed to be correct."""
        holding = [
            [
                one
                for one in blocks
                if one.held and (not question.title or normalise_answer(question.title) == one.normal_title)
            ]
            if question.context is None
            else []
            for question, blocks in zip(batch, retrieved, strict=True)
        ]
        if self._reader is None:
            return [blocks[0].block if blocks else None for blocks in holding]
        candidates = [blocks[: self._config.candidates] for blocks in holding]
        asked = [
            (question, [one.block for one in blocks], [one.score for one in blocks])
            for question, blocks in zip(batch, candidates, strict=True)
        ]
        return self._reader.chosen(asked, self._config.agreement)

    def _rows_of(
        self, question: Question, retrieved: Sequence[_Retrieved], right: Block | None, passages: Sequence[str]
    ) -> Iterator[tuple[str, ReadingRow]]:
        config, draw = self._config, self._draw
        if question.context is not None:
            context = cut_around(question.context, question.answers, config.window, draw)
            yield "of passages", ReadingRow(question.question, question.title or "", context, question.answers)
        elif right is not None:
            yield (
                "of blocks",
                ReadingRow(question.question, right.title, right.text, answer_strings(question, right.text)),
            )
        for rank, one in enumerate(retrieved[: config.read], start=1):
            block = one.block
            if not question.answers:
                if rank <= config.unanswerable_blocks and question.title in (None, block.title):
                    yield "of unanswerable questions", ReadingRow(question.question, block.title, block.text, ())
            elif not one.held and draw.random() < config.not_here and block.title != question.title:
                yield "not in blocks", ReadingRow(question.question, block.title, block.text, ())
        if draw.random() < config.same_article:
            others = [p for p in passages if p != question.context and not holds_answer(p, question.answers)]
            if others:
                words = set(question.question.lower().split())
                nearest = max(others, key=lambda passage: len(words & set(passage.lower().split())))
                context = cut_around(nearest, (), config.window, draw)
                yield "not in the article's", ReadingRow(question.question, question.title or "", context, ())
        title = question.title if question.answers else None
        if title and draw.random() < config.false_premise and len(title) >= _LEAST_TITLE:
            named = re.compile(rf"\b{re.escape(title)}\b", re.IGNORECASE)
            other = self._snapshot.block(draw.randrange(len(self._snapshot)))
            known = normalise_answer(other.title) in self._excluded or holds_answer(other.text, question.answers)
            if named.search(question.question) and not known:
                asked = named.sub(lambda _: other.title, question.question)
                yield "false premises", ReadingRow(asked, other.title, other.text, ())


def answer_strings(question: Question, text: str) -> tuple[str, ...]:
    """The answers as strings; for regular expressions, their matches in the text."""
    if question.answer_type != "regex":
        return question.answers
    return tuple(
        dict.fromkeys(
            text[start:end] for answer in question.answers for start, end in answer_pattern(answer).spans(text)
        )
    )


def cut_around(text: str, answers: Sequence[str], window: int, draw: random.Random) -> str:
    """Whole sentences of `text`, at most `window` characters unless one is longer, one of them with an answer."""
    if len(text) <= window:
        return text
    spans = sentence_spans(text)
    held = [place for place, (start, end) in enumerate(spans) if holds_answer(text[start:end], answers)]
    first = last = draw.choice(held) if held else draw.randrange(len(spans))
    while True:
        choices = []
        if first > 0 and spans[last][1] - spans[first - 1][0] <= window:
            choices.append("before")
        if last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= window:
            choices.append("behind")
        if not choices:
            return text[spans[first][0] : spans[last][1]]
        if draw.choice(choices) == "before":
            first -= 1
        else:
            last += 1
