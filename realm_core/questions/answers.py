"""Whether an answer is correct: exact match after normalising, or regular expressions (CuratedTREC)."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

import regex

from realm_core.errors import RealmError, quoted

ARTICLES = re.compile(r"\b(a|an|the)\b")
_MATCH_TIMEOUT_S = 1.0  # per expression and text; those of CuratedTREC take about 0.05 ms for a block
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=4096)  # the spans of one question's blocks are much the same words
def normalise_answer(text: str) -> str:
    """NFD and lower case, without ASCII punctuation and the articles a / an / the, white space folded (ORQA's code)."""
    text = unicodedata.normalize("NFD", text).lower().translate(_NO_PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", text).split())


def exact_match(prediction: str, answers: Sequence[str]) -> bool:
    """Whether the prediction equals one of the answers after normalising; an empty prediction equals none."""
    normal = normalise_answer(prediction)
    return bool(normal) and any(normal == normalise_answer(answer) for answer in answers)


class AnswerPattern:
    """A CuratedTREC answer: a regular expression with the flags I, U and M, as in the released code.

    RealmError if the expression is invalid, and from every method if matching times out (catastrophic backtracking).
    """

    def __init__(self, expression: str) -> None:
        self._expression = expression
        try:
            self._pattern = regex.compile(expression, flags=regex.IGNORECASE | regex.UNICODE | regex.MULTILINE)
        except (
            regex.error,
            RecursionError,
            OverflowError,
            MemoryError,
        ) as error:  # the last three: nested too deeply, or too many repetitions
            raise RealmError(f"The regular expression {quoted(expression)} is not valid: {error}.") from None

    def begins(self, text: str) -> bool:
        with self._timeout_errors():
            return self._pattern.match(text, timeout=_MATCH_TIMEOUT_S) is not None

    def occurs_in(self, text: str) -> bool:
        """Whether there is a match anywhere in the text."""
        with self._timeout_errors():
            return self._pattern.search(text, timeout=_MATCH_TIMEOUT_S) is not None

    def spans(self, text: str) -> list[tuple[int, int]]:
        """(start, end) characters of every match that is not empty."""
        with self._timeout_errors():
            found = self._pattern.finditer(text, timeout=_MATCH_TIMEOUT_S)
            return [match.span() for match in found if match.end() > match.start()]

    @contextmanager
    def _timeout_errors(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise RealmError(
                f"The regular expression {quoted(self._expression)} takes more than {_MATCH_TIMEOUT_S:g} s on one "
                "text; write it without nested repetitions."
            ) from None


@lru_cache(maxsize=4096)
def answer_pattern(expression: str) -> AnswerPattern:
    """The compiled pattern of an expression, cached. RealmError as for `AnswerPattern`."""
    return AnswerPattern(expression)


def regex_match(prediction: str, answers: Sequence[str]) -> bool:
    """Whether one of the expressions matches the prediction from its start (as the released code does)."""
    return any(answer_pattern(expression).begins(prediction) for expression in answers)


def is_correct(prediction: str, answers: Sequence[str], answer_type: str = "string") -> bool:
    """Exact match, or `regex_match` where `answer_type` is "regex"."""
    return (regex_match if answer_type == "regex" else exact_match)(prediction, answers)


def holds_answer(text: str, answers: Sequence[str], answer_type: str = "string") -> bool:
    """Whether the text contains an answer: as whole normalised words, or as a match of an expression."""
    if answer_type == "regex":
        return any(answer_pattern(expression).occurs_in(text) for expression in answers)
    padded = f" {normalise_answer(text)} "
    return any((normal := normalise_answer(answer)) and f" {normal} " in padded for answer in answers)
