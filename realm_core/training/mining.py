"""Distant supervision: for each question, passages that hold its answer and passages that should have.

    python -m realm_core mine --questions FILE… --corpus SNAPSHOT --output ROWS [--model DIR --index DIR]

Where a question brings its context (SQuAD), the context is the positive and other contexts of the same article are
the negatives. Otherwise both come from what a retriever finds: BM25, or a model with its index. Where the question
names its article, only blocks of that article are positives.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from realm_core.activity import Activity
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.evaluation.answers import holds_answer, normalise_answer
from realm_core.files import read_json
from realm_core.index.retriever import Retriever
from realm_core.training.questions import Question, read_questions
from realm_core.training.rows import Passage, ReadingRow, write_rows

_QUESTIONS_AT_ONCE = 256
_NEGATIVES = 6
_POSITIVES = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `mine`."""
    parser.add_argument("--questions", type=Path, nargs="+", required=True, help="question files (JSON lines)")
    parser.add_argument("--corpus", type=Path, required=True, help="snapshot folder")
    parser.add_argument("--model", type=Path, help="with --index: retrieve with this model instead of BM25")
    parser.add_argument("--index", type=Path, help="generation folder")
    parser.add_argument("--top", type=int, default=8, help="blocks looked at for each question (default 8)")
    parser.add_argument("--exclude-titles", type=Path, help="JSON list of articles that must not be learnt from")
    parser.add_argument("--output", type=Path, required=True, help="file of rows to write")


def main(arguments: argparse.Namespace, activity: Activity) -> None:
    """Mine every file; rows without any positive are left out."""
    if (arguments.model is None) != (arguments.index is None):
        raise RealmError("--model and --index go together: a model retrieves with its index.")
    snapshot = Snapshot.open(arguments.corpus)
    excluded = frozenset(read_json(arguments.exclude_titles) if arguments.exclude_titles else ())
    activity.say("Making the retriever ready.")
    retriever: Retriever
    if arguments.model is not None:
        from realm_core.index.retriever import DenseRetriever

        retriever = DenseRetriever.load(arguments.model, arguments.index, arguments.corpus)
    else:
        from realm_core.index.retriever import SparseRetriever

        retriever = SparseRetriever(snapshot)
    files = {path.stem: read_questions(path) for path in arguments.questions}
    total, done = sum(map(len, files.values())), 0

    def rows() -> Iterator[ReadingRow]:
        nonlocal done
        for group, questions in files.items():
            found = 0
            by_article = _contexts_by_article(questions)
            for start in range(0, len(questions), _QUESTIONS_AT_ONCE):
                activity.check()
                part = questions[start : start + _QUESTIONS_AT_ONCE]
                retrieved = retriever.rows([question.question for question in part], arguments.top)
                for question, block_rows in zip(part, retrieved, strict=True):
                    row = _row(question, group, snapshot, block_rows, by_article, excluded)
                    if row is not None:
                        found += 1
                        yield row
                done += len(part)
                activity.progress(done, total, "questions", group)
            activity.say(f"{group}: {found:,} of {len(questions):,} questions have a passage that holds an answer.")

    count = write_rows(arguments.output, rows())
    activity.result({"path": str(arguments.output), "rows": count})


def _contexts_by_article(questions: Sequence[Question]) -> dict[str, list[str]]:
    contexts: dict[str, dict[str, None]] = defaultdict(dict)
    for question in questions:
        if question.context:
            contexts[question.title or ""][question.context] = None
    return {title: list(texts) for title, texts in contexts.items()}


def _row(
    question: Question,
    group: str,
    snapshot: Snapshot,
    block_rows: Sequence[int],
    by_article: dict[str, list[str]],
    excluded: frozenset[str],
) -> ReadingRow | None:
    positives: list[Passage] = []
    negatives: list[Passage] = []
    if question.context is not None:
        title = question.title or ""
        positives = [(title, question.context)]
        others = [text for text in by_article[title] if text != question.context]
        random.Random(question.question).shuffle(others)
        negatives = [(title, text) for text in others if not holds_answer(text, question.answers, question.answer_type)]
    else:
        for block_row in block_rows:
            block = snapshot.block(block_row)
            if block.title in excluded:
                continue
            holds = holds_answer(block.text, question.answers, question.answer_type)
            gold = question.title is None or normalise_answer(question.title) == normalise_answer(block.title)
            if holds and gold:
                positives.append((block.title, block.text))
            elif not holds:
                negatives.append((block.title, block.text))
    if not positives:
        return None
    return ReadingRow(
        question.question,
        question.answers,
        question.answer_type,
        tuple(positives[:_POSITIVES]),
        tuple(negatives[:_NEGATIVES]),
        group,
    )
