"""For each question the nearest blocks of an index before a training, and which of them hold an answer.

A block is *right* if it is among the very nearest and holds the string of an answer, in the question's own article if
the question names one. Further down the ranking a match is mostly a coincidence: such blocks, matches in other articles
and articles that are not trained on are *unclear*, neither right nor wrong.

Legend: Q questions, C competing blocks of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from realm_core.corpus.store import Snapshot
from realm_core.index.retriever import Retriever
from realm_core.questions.answers import holds_answer, normalise_answer
from realm_core.questions.question_file import Question
from realm_core.runs.activity import Activity
from realm_core.tensors import load_tensors, save_tensors

_QUESTIONS_AT_ONCE = 256
_QUESTIONS_A_FILE = 8192
_BLOCKS_KEPT = 200_000  # normalised texts in memory, about 1 KB each


@dataclass(frozen=True)
class Nearest:
    """rows_QC: int32, nearest first; right_QC, unclear_QC: bool, never both."""

    rows_QC: Tensor
    right_QC: Tensor
    unclear_QC: Tensor

    def __len__(self) -> int:
        return len(self.rows_QC)

    def of(self, questions: Sequence[int] | Tensor) -> Nearest:
        chosen = torch.as_tensor(questions, dtype=torch.long)
        return Nearest(self.rows_QC[chosen], self.right_QC[chosen], self.unclear_QC[chosen])


class NearestBlocks:
    """Finds the nearest blocks of questions and judges each.

    excluded: normalised titles of articles that are not trained on. right_within: a match further down the ranking
    than this is not right but unclear. competing: C.
    """

    def __init__(
        self, retriever: Retriever, snapshot: Snapshot, excluded: frozenset[str], *, right_within: int, competing: int
    ) -> None:
        self._retriever, self._snapshot, self._excluded = retriever, snapshot, excluded
        self._right_within, self._competing = right_within, min(competing, len(snapshot))
        self._normal = lru_cache(maxsize=_BLOCKS_KEPT)(self._normalised)

    def of(self, questions: Sequence[Question], kept: Path, activity: Activity, what: str) -> Nearest:
        """The nearest blocks of all questions. kept: prefix of the files that a resumed training reads again."""
        parts: list[Nearest] = []
        for start in range(0, len(questions), _QUESTIONS_A_FILE):
            part = questions[start : start + _QUESTIONS_A_FILE]
            path = kept.with_name(f"{kept.name}-{start // _QUESTIONS_A_FILE}.safetensors")
            if not path.exists():
                found = list(self._found(part, activity, start, len(questions), what))
                save_tensors(path, {name: torch.cat([getattr(one, name) for one in found]) for name in _FIELDS})
            tensors = load_tensors(path)
            parts.append(Nearest(*(tensors[name] for name in _FIELDS)))
        return Nearest(*(torch.cat([getattr(one, name) for one in parts]) for name in _FIELDS))

    def _found(
        self, questions: Sequence[Question], activity: Activity, done: int, total: int, what: str
    ) -> Iterator[Nearest]:
        for start in range(0, len(questions), _QUESTIONS_AT_ONCE):
            activity.check()
            batch = questions[start : start + _QUESTIONS_AT_ONCE]
            rows = self._retriever.rows([question.question for question in batch], self._competing)
            judged = torch.tensor([self._judged(*pair) for pair in zip(batch, rows, strict=True)], dtype=torch.bool)
            yield Nearest(torch.tensor(rows, dtype=torch.int32), judged[:, 0], judged[:, 1])
            activity.progress(done + start + len(batch), total, "questions", what)

    def _judged(self, question: Question, rows: Sequence[int]) -> tuple[list[bool], list[bool]]:
        """For each block whether it is right, and whether it is unclear."""
        own = None if question.title is None else normalise_answer(question.title)
        needles = [f" {normal} " for answer in question.answers if (normal := normalise_answer(answer))]
        right, unclear = [], []
        for rank, row in enumerate(rows):
            title, text, padded = self._normal(row)
            if question.answer_type == "regex":
                held = holds_answer(text, question.answers, "regex")
            else:
                held = any(needle in padded for needle in needles)
            excluded = title in self._excluded
            right.append(held and not excluded and rank < self._right_within and own in (None, title))
            unclear.append((held or excluded) and not right[-1])
        return right, unclear

    def _normalised(self, row: int) -> tuple[str, str, str]:
        """A block's title as answers are compared, its text, and its text as `holds_answer` searches it."""
        block = self._snapshot.block(row)
        return normalise_answer(block.title), block.text, f" {normalise_answer(block.text)} "


_FIELDS = ("rows_QC", "right_QC", "unclear_QC")
