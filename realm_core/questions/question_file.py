"""Question files: JSON lines of {"question", "answers", "answer_type"?, "title"?, "context"?}; others ignored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from realm_core.errors import RealmError, quoted, unfit_character
from realm_core.files import json_lines, read_json
from realm_core.questions.answers import answer_pattern

ANSWER_TYPES = ("string", "regex")


@dataclass(frozen=True)
class Question:
    """A question with its accepted answers.

    answer_type: "string" (exact match after normalising) or "regex" (CuratedTREC).
    title, context: the article and its passage that contains the answer, where the set has them.
    """

    question: str
    answers: tuple[str, ...]
    answer_type: str = "string"
    title: str | None = None
    context: str | None = None


def read_questions(path: Path, *, answerable: bool | None = True) -> list[Question]:
    """All questions of a file; RealmError with file, line and reason for the first bad row.

    answerable: True if every question must have answers, False if none may (`"answers": []`), None for either.
    """
    questions = [checked_question(row, place, answerable=answerable) for row, place in json_lines(path)]
    if not questions:
        raise RealmError(f"{path} contains no questions.")
    return questions


def read_titles(path: Path) -> list[str]:
    """A JSON list of articles' titles; `RealmError` if the file is not one."""
    titles = read_json(path)
    if not isinstance(titles, list) or not all(isinstance(title, str) for title in titles):
        raise RealmError(f"{path} is not a JSON list of titles.")
    return titles


def checked_question(row: object, where: str, *, answerable: bool | None = True) -> Question:
    """A question from a parsed JSON row; RealmError that begins with `where` if the row is not valid."""
    if not isinstance(row, dict):
        raise RealmError(f"{where}: a JSON object is expected, not {type(row).__name__}.")
    question, answers = row.get("question"), row.get("answers")
    if not isinstance(question, str) or not question.strip():
        raise RealmError(f"{where}: `question` must be a non-empty text.")
    if answerable is False and answers != []:
        raise RealmError(f"{where}: `answers` must be an empty list: this file is for questions without an answer.")
    if answerable and answers == []:
        why = "only files to measure by have questions without an answer"
        raise RealmError(f"{where}: `answers` must be a list of non-empty texts, and not empty: {why}.")
    texts = isinstance(answers, list) and all(isinstance(a, str) and a.strip() for a in answers)
    if not isinstance(answers, list) or not texts:
        raise RealmError(f"{where}: `answers` must be a list of non-empty texts.")
    answer_type = row.get("answer_type", "string")
    if answer_type not in ANSWER_TYPES:
        raise RealmError(f"{where}: `answer_type` must be one of {', '.join(ANSWER_TYPES)}, not {quoted(answer_type)}.")
    if answer_type == "regex":
        for expression in answers:
            try:
                answer_pattern(expression)
            except RealmError as error:
                raise RealmError(f"{where}: {error}") from None
    for name in ("title", "context"):
        if row.get(name) is not None and not isinstance(row[name], str):
            raise RealmError(f"{where}: `{name}` must be a text.")
    for text in (question, *answers, row.get("title"), row.get("context")):
        if found := unfit_character(text or ""):
            raise RealmError(f"{where}: the character {found!r} cannot be stored or displayed.")
    return Question(question.strip(), tuple(answers), answer_type, row.get("title"), row.get("context"))
