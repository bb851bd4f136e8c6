"""Reading rows: JSON lines of {"question", "title", "context", "answers"}, each a question paired with one block.

Without answers the block holds none: "not here" is correct. `mine` makes such rows. Consecutive rows of a question that
have a "score", f(x, z), are learnt together: the blocks that were retrieved for it, the best first.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from realm_core.errors import RealmError, quoted
from realm_core.files import json_lines
from realm_core.model.config import ModelConfig
from realm_core.model.pairs import ReadingPair
from realm_core.questions.matching import NormalText, answer_spans
from realm_core.text.wordpieces import Wordpieces


@dataclass(frozen=True)
class ReadingRow:
    """A question, a block, and the answers in the block, if any.

    typed: the question as a person in a hurry types it; None: unchanged.
    score: f(x, z) of the block; None: the row is learnt by itself.
    """

    question: str
    title: str
    context: str
    answers: tuple[str, ...]
    typed: str | None = None
    score: float | None = None


def read_rows(path: Path) -> list[ReadingRow]:
    """All rows of a file; an error names file, line and reason of the first bad row."""
    rows = [_row(row, place) for row, place in json_lines(path)]
    if not rows:
        raise RealmError(f"{path} holds no rows.")
    return rows


def _row(row: object, where: str) -> ReadingRow:
    if not isinstance(row, dict):
        raise RealmError(f"{where}: an object is expected.")
    for name in ("question", "title", "context"):
        if not isinstance(row.get(name), str) or (name != "title" and not row[name].strip()):
            raise RealmError(f"{where}: `{name}` must be a text.")
    answers = row.get("answers")
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise RealmError(f"{where}: `answers` must be a list of texts, not {quoted(answers)}.")
    score = row.get("score")
    if score is not None and (type(score) not in (int, float) or not math.isfinite(score)):
        raise RealmError(f"{where}: `score` must be a number, not {quoted(score)}.")
    return ReadingRow(row["question"].strip(), row["title"], row["context"], tuple(answers), score=score)


def grouped(rows: Iterable[ReadingRow]) -> list[tuple[ReadingRow, ...]]:
    """The rows in groups: those of a question's retrieved blocks, and each other row by itself."""
    groups: list[tuple[ReadingRow, ...]] = []
    for row in rows:
        last = groups[-1][0] if groups else None
        if last and None not in (last.score, row.score) and last.question == row.question:
            groups[-1] += (row,)
        else:
            groups.append((row,))
    return groups


def some_blocks(group: Sequence[ReadingRow], least: int, draw: random.Random) -> tuple[ReadingRow, ...]:
    """The best of a question's blocks, at least `least` of them; one among them holds an answer, if any does."""
    count = draw.randint(min(least, len(group)), len(group))
    best, rest = group[:count], group[count:]
    if not any(row.answers for row in best):
        best = (*best[:-1], next((row for row in rest if row.answers), best[-1]))
    return tuple(best)


@dataclass(frozen=True)
class ReadingExample:
    """A row as the reader's input.

    spans:   (first, last) body wordpieces that read an answer; none: "not here".
    written: the pair with the question as written, and the same body wordpieces.
    """

    pair: ReadingPair
    spans: frozenset[tuple[int, int]]
    written: ReadingPair


def example_of(row: ReadingRow, config: ModelConfig, wordpieces: Wordpieces) -> ReadingExample | None:
    """The row joined and its answers located; None if none of its answers is in the part of the block that is read."""
    question, typed, title, body = wordpieces.encode([row.question, row.typed or row.question, row.title, row.context])
    pair = ReadingPair.of(wordpieces, config, typed, title, body, row.context)
    written = ReadingPair.of(wordpieces, config, question, title, body, row.context)
    if len(written.offsets) != len(pair.offsets):
        written = pair  # a question of another length leaves room for another part of the body
    if not row.answers:
        return ReadingExample(pair, frozenset(), written)
    found = answer_spans(row.context, NormalText.of(row.context), body, row.answers, "string", config.span_wordpieces)
    spans = frozenset(
        (first, last) for first, last in found if last < len(pair.offsets) and last - first < pair.room[first]
    )
    return ReadingExample(pair, spans, written) if spans else None
