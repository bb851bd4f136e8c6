"""When is an answer right? Exact match after normalising, and regular expressions (CuratedTREC)."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

import regex

from realm_core.errors import RealmError, quoted

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MATCHING_S = 1.0  # for one expression over one text; those of CuratedTREC take about 0.05 ms for a block
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise_answer(text: str) -> str:
    """NFD, lower case, ASCII punctuation out, the articles a / an / the out, white space folded (ORQA's release)."""
    text = unicodedata.normalize("NFD", text).lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(prediction: str, answers: Sequence[str]) -> bool:
    """Whether the prediction equals one of the answers after normalising; an empty one equals nothing."""
    normal = normalise_answer(prediction)
    return bool(normal) and any(normal == normalise_answer(answer) for answer in answers)


class AnswerPattern:
    """A CuratedTREC answer: a regular expression with the flags I, U and M, as in the release.

    RealmError for one that is not valid, and from every method for one that takes too long over a text: there are
    expressions for which no engine that goes back and tries again ever ends.
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
        ) as error:  # nested too deeply, too often repeated
            raise RealmError(f"The regular expression {quoted(expression)} is not valid: {error}.") from None

    def begins(self, text: str) -> bool:
        """Whether the text begins with a match."""
        with self._in_time():
            return self._pattern.match(text, timeout=_MATCHING_S) is not None

    def occurs_in(self, text: str) -> bool:
        """Whether there is a match anywhere in the text."""
        with self._in_time():
            return self._pattern.search(text, timeout=_MATCHING_S) is not None

    def spans(self, text: str) -> list[tuple[int, int]]:
        """(first character, the one after the last) of every match that is not empty."""
        with self._in_time():
            found = self._pattern.finditer(text, timeout=_MATCHING_S)
            return [match.span() for match in found if match.end() > match.start()]

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise RealmError(
                f"The regular expression {quoted(self._expression)} takes more than {_MATCHING_S:g} s over one text; "
                "write it without repetitions of what is repeated already."
            ) from None


@lru_cache(maxsize=4096)
def answer_pattern(expression: str) -> AnswerPattern:
    """The pattern of an expression, compiled once. RealmError as `AnswerPattern`."""
    return AnswerPattern(expression)


def regex_match(prediction: str, answers: Sequence[str]) -> bool:
    """Whether one of the expressions matches the prediction, anchored at its start (release)."""
    return any(answer_pattern(expression).begins(prediction) for expression in answers)


def is_correct(prediction: str, answers: Sequence[str], answer_type: str = "string") -> bool:
    """Exact match, or a match of regular expressions where `answer_type` is "regex"."""
    return (regex_match if answer_type == "regex" else exact_match)(prediction, answers)


def holds_answer(text: str, answers: Sequence[str], answer_type: str = "string") -> bool:
    """Whether the text holds an answer: as whole normalised words, or as a match of an expression anywhere."""
    if answer_type == "regex":
        return any(answer_pattern(expression).occurs_in(text) for expression in answers)
    padded = f" {normalise_answer(text)} "
    return any((normal := normalise_answer(answer)) and f" {normal} " in padded for answer in answers)
