"""Reading rows: JSON lines of {"question", "title", "context", "answers"}, each a question paired with one block.

Without answers the block holds none: "not here" is correct. `mine` makes such rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from realm_core.errors import RealmError, quoted
from realm_core.files import parse_json
from realm_core.model.config import ModelConfig
from realm_core.model.pairs import ReadingPair
from realm_core.questions.matching import NormalText, answer_spans
from realm_core.text.wordpieces import Wordpieces


@dataclass(frozen=True)
class ReadingRow:
    """A question, a block, and the answers in the block, if any.

    typed: the question as a person in a hurry types it; None: unchanged.
    """

    question: str
    title: str
    context: str
    answers: tuple[str, ...]
    typed: str | None = None

    @property
    def draw(self) -> float:
        """A number from 0 to 1 that depends on the question alone."""
        return int(hashlib.sha256(self.question.encode()).hexdigest()[:8], 16) / 2**32


def read_rows(path: Path) -> list[ReadingRow]:
    """All rows of a file; an error names file, line and reason of the first bad row."""
    rows = []
    try:
        with open(path, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    rows.append(_row(line, f"{path}, line {number}"))
    except FileNotFoundError:
        raise RealmError(f"{path} does not exist.") from None
    except UnicodeDecodeError as error:
        raise RealmError(f"{path} is not UTF-8: {error}.") from None
    if not rows:
        raise RealmError(f"{path} holds no rows.")
    return rows


def _row(line: str, where: str) -> ReadingRow:
    try:
        row = parse_json(line)
    except RealmError as error:
        raise RealmError(f"{where} {error}") from None
    if not isinstance(row, dict):
        raise RealmError(f"{where}: an object is expected.")
    for name in ("question", "title", "context"):
        if not isinstance(row.get(name), str) or (name != "title" and not row[name].strip()):
            raise RealmError(f"{where}: `{name}` must be a text.")
    answers = row.get("answers")
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise RealmError(f"{where}: `answers` must be a list of texts, not {quoted(answers)}.")
    return ReadingRow(row["question"].strip(), row["title"], row["context"], tuple(answers))


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


def correct_spans(examples: Sequence[ReadingExample], width: int, like_PS: Tensor) -> Tensor:
    """bool [P, S], True at the spans that read an answer; `width`: as in the reader's logits."""
    correct_PS = torch.zeros_like(like_PS, dtype=torch.bool)
    for number, example in enumerate(examples):
        for first, last in example.spans:
            if last - first < width:
                correct_PS[number, first * width + last - first] = True
    return correct_PS & torch.isfinite(like_PS)
