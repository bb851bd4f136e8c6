"""When is an answer right? Exact match after normalising, and regular expressions (CuratedTREC)."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from realm_core.errors import RealmError
from realm_core.settings import quoted

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise_answer(text: str) -> str:
    """NFD, lower case, ASCII punctuation out, the articles a / an / the out, white space folded (ORQA's release)."""
    text = unicodedata.normalize("NFD", text).lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(prediction: str, answers: Sequence[str]) -> bool:
    """Whether the prediction equals one of the answers after normalising; an empty one equals nothing."""
    normal = normalise_answer(prediction)
    return bool(normal) and any(normal == normalise_answer(answer) for answer in answers)


@lru_cache(maxsize=4096)
def answer_pattern(expression: str) -> re.Pattern[str]:
    """A CuratedTREC answer as a compiled expression: flags I, U and M, as in the release."""
    try:
        return re.compile(expression, flags=re.IGNORECASE | re.UNICODE | re.MULTILINE)
    except (re.error, RecursionError, OverflowError, MemoryError) as error:  # nested too deeply, repeated too often
        raise RealmError(f"The regular expression {quoted(expression)} is not valid: {error}.") from None


def regex_match(prediction: str, answers: Sequence[str]) -> bool:
    """Whether one of the expressions matches the prediction, anchored at its start (release)."""
    return any(answer_pattern(expression).match(prediction) is not None for expression in answers)


def is_correct(prediction: str, answers: Sequence[str], answer_type: str = "string") -> bool:
    """Exact match, or a match of regular expressions where `answer_type` is "regex"."""
    return (regex_match if answer_type == "regex" else exact_match)(prediction, answers)


def holds_answer(text: str, answers: Sequence[str], answer_type: str = "string") -> bool:
    """Whether the text holds an answer: as whole normalised words, or as a match of an expression anywhere."""
    if answer_type == "regex":
        return any(answer_pattern(expression).search(text) is not None for expression in answers)
    padded = f" {normalise_answer(text)} "
    return any((normal := normalise_answer(answer)) and f" {normal} " in padded for answer in answers)
