"""Reading rows from question files: `python -m realm_core mine`.

For each question, what the reader is to learn from:

    its own passage, where the set has one, cut to a few sentences around an answer          → the answer
    else the best-ranked block that holds an answer, of those retrieved (`depth`)            → the answer
    blocks retrieved (`read`) and a passage of the same article, that hold no answer         → "not here"
    the question with its article's title exchanged for another's, against the other's block → "not here"

A match far down the ranking is mostly a coincidence (of Natural Questions' best string matches half stand behind rank
20), so none beyond `depth` is taken. The last kind are questions with a false premise.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from realm_core.activity import Activity
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.evaluation.answers import answer_pattern, holds_answer, normalise_answer
from realm_core.files import disk_errors
from realm_core.index.corpus_of import add_corpus_argument, corpus_of
from realm_core.index.retriever import DenseRetriever
from realm_core.settings import read_settings
from realm_core.text.sentences import sentence_spans
from realm_core.training.config import MineConfig
from realm_core.training.questions import Question, read_questions, read_titles
from realm_core.training.reading_rows import ReadingRow
from realm_core.training.stage import add_settings_arguments

_QUESTIONS_AT_ONCE = 256
_LEAST_TITLE = 4  # characters of a title that is exchanged


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `mine`."""
    parser.add_argument("--model", type=Path, required=True, help="model folder whose query embedder retrieves")
    parser.add_argument("--index", type=Path, required=True, help="generation of that model and corpus")
    add_corpus_argument(parser, by_index=True)
    parser.add_argument("--questions", type=Path, nargs="+", required=True, help="question files (JSON lines)")
    parser.add_argument("--without", type=Path, nargs="*", default=[], help="question files to leave questions out of")
    parser.add_argument("--exclude-titles", type=Path, help="JSON list of articles that are not learnt from")
    parser.add_argument("--output", type=Path, required=True, help="file of reading rows to make")
    add_settings_arguments(parser, MineConfig)


def main(arguments: argparse.Namespace, activity: Activity) -> None:
    """Write the rows and say how many of each kind there are."""
    config = read_settings(MineConfig, arguments.config, arguments.set)
    if arguments.output.exists():
        raise RealmError(f"{arguments.output} exists already; choose another name.")
    left_out = {normalise_answer(question.question) for path in arguments.without for question in read_questions(path)}
    excluded = (
        {normalise_answer(title) for title in read_titles(arguments.exclude_titles)}
        if (arguments.exclude_titles)
        else set()
    )
    questions: list[Question] = []
    for path in arguments.questions:
        own = [q for q in read_questions(path) if normalise_answer(q.question) not in left_out]
        own = [q for q in own if normalise_answer(q.title or "") not in excluded or not q.title]
        random.Random(f"{config.seed} {path.stem}").shuffle(own)
        wanted = config.take.get(path.stem)
        questions += own if wanted is None else own[:wanted]
    corpus = corpus_of(arguments.index, arguments.corpus)
    miner = _Miner(
        config, DenseRetriever.load(arguments.model, arguments.index, corpus), Snapshot.open(corpus), excluded
    )
    counts: dict[str, int] = defaultdict(int)
    temporary = arguments.output.with_name(f".{arguments.output.name}.tmp")
    with disk_errors(arguments.output), open(temporary, "w", encoding="utf-8") as file:
        for kind, row in miner.rows(questions, activity):
            counts[kind] += 1
            value = {"question": row.question, "title": row.title, "context": row.context, "answers": row.answers}
            print(json.dumps(value, ensure_ascii=False), file=file)
    temporary.replace(arguments.output)
    activity.say(f"{arguments.output}: " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items())))
    activity.result({"path": str(arguments.output), "rows": dict(counts)})


class _Miner:
    """Makes the rows of questions. excluded: normalised titles whose blocks are not taken."""

    def __init__(self, config: MineConfig, retriever: DenseRetriever, snapshot: Snapshot, excluded: set[str]) -> None:
        self._config, self._retriever, self._snapshot, self._excluded = config, retriever, snapshot, excluded
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
            found = self._retriever.rows([question.question for question in batch], self._config.depth)
            for question, own in zip(batch, found, strict=True):
                yield from self._of(question, own, passages.get(question.title or "", []))
            activity.progress(start + len(batch), len(questions), "questions")

    def _of(self, question: Question, rows: Sequence[int], passages: Sequence[str]) -> Iterator[tuple[str, ReadingRow]]:
        config, draw = self._config, self._draw
        blocks = [self._snapshot.block(row) for row in rows]
        blocks = [block for block in blocks if normalise_answer(block.title) not in self._excluded]
        holds = [holds_answer(block.text, question.answers, question.answer_type) for block in blocks]
        if question.context is not None:
            context = cut_around(question.context, question.answers, config.window, draw)
            yield "of passages", ReadingRow(question.question, question.title or "", context, question.answers)
        elif any(holds):
            block = blocks[holds.index(True)]
            if not question.title or normalise_answer(question.title) == normalise_answer(block.title):
                yield "of blocks", ReadingRow(question.question, block.title, block.text, _said(question, block.text))
        for block, held in zip(blocks[: config.read], holds, strict=False):
            if not held and draw.random() < config.not_here and block.title != question.title:
                yield "not in blocks", ReadingRow(question.question, block.title, block.text, ())
        if draw.random() < config.same_article:
            others = [p for p in passages if p != question.context and not holds_answer(p, question.answers)]
            if others:
                words = set(question.question.lower().split())
                nearest = max(others, key=lambda passage: len(words & set(passage.lower().split())))
                context = cut_around(nearest, (), config.window, draw)
                yield "not in the article's", ReadingRow(question.question, question.title or "", context, ())
        if question.title and draw.random() < config.false_premise and len(question.title) >= _LEAST_TITLE:
            named = re.compile(rf"\b{re.escape(question.title)}\b", re.IGNORECASE)
            other = self._snapshot.block(draw.randrange(len(self._snapshot)))
            known = normalise_answer(other.title) in self._excluded or holds_answer(other.text, question.answers)
            if named.search(question.question) and not known:
                asked = named.sub(lambda _: other.title, question.question)
                yield "false premises", ReadingRow(asked, other.title, other.text, ())


def _said(question: Question, text: str) -> tuple[str, ...]:
    """The answers as strings: of regular expressions, what matches them in the text."""
    if question.answer_type != "regex":
        return question.answers
    return tuple(
        dict.fromkeys(
            text[start:end] for answer in question.answers for start, end in answer_pattern(answer).spans(text)
        )
    )


def cut_around(text: str, answers: Sequence[str], window: int, draw: random.Random) -> str:
    """Whole sentences of `text`, `window` characters at most but for one longer, with one that holds an answer."""
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
