"""The questions that a training may use: those of its files, less what measures and the articles set aside."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from realm_core.errors import RealmError
from realm_core.questions.answers import normalise_answer
from realm_core.questions.question_file import Question, read_questions, read_titles


def files_by_name(paths: Sequence[Path]) -> dict[str, Path]:
    """Question files by name without ending, as settings name them; RealmError if two have the same name."""
    files: dict[str, Path] = {}
    for path in paths:
        if path.stem in files:
            raise RealmError(f"{path}: another question file is called {path.stem}, too; rename one of them.")
        files[path.stem] = path
    return files


@dataclass(frozen=True)
class LeftOut:
    """Questions and titles of articles that are not learnt, normalised as answers are."""

    questions: frozenset[str]
    titles: frozenset[str]

    @classmethod
    def of(cls, without: Sequence[Path], exclude_titles: Path | None) -> LeftOut:
        """without: question files, answerable or not; exclude_titles: a JSON list."""
        return cls(
            frozenset(
                normalise_answer(question.question)
                for path in without
                for question in read_questions(path, answerable=None)
            ),
            frozenset(map(normalise_answer, read_titles(exclude_titles) if exclude_titles else ())),
        )

    def rest(self, path: Path, *, answerable: bool, seed: int, take: int | None) -> list[Question]:
        """The questions of a file that may be learnt, in an order drawn by `seed`; the first `take` of them."""
        rest = [
            question
            for question in read_questions(path, answerable=answerable)
            if normalise_answer(question.question) not in self.questions
            and not (question.title and normalise_answer(question.title) in self.titles)
        ]
        random.Random(f"{seed} {path.stem}").shuffle(rest)
        return rest if take is None else rest[:take]
