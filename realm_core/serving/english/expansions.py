"""Questions for what an abbreviation stands for: the words whose initials spell it are displayed, not a part of them.

"UNESCO" is "United Nations Educational, Scientific and Cultural Organization", and not "United Nations".
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from realm_core.corpus.records import Span

_ASKS: Final = re.compile(
    r"\b(?:stands? for|stood for|short for|abbreviat\w*|acronym|initials|initialism|full form)\b", re.IGNORECASE
)
_WORD: Final = re.compile(r"[^\W_]+")
_UNSAID: Final = frozenset("a an and at by de for from in of on the to with".split())
_LENGTHS: Final = range(2, 9)  # letters of an abbreviation


def abbreviations_in(question: str) -> frozenset[str]:
    """Words of a question that may be the abbreviation to expand, folded; none if it asks for no expansion."""
    if not _ASKS.search(question):
        return frozenset()
    words = (word[0].casefold() for word in _WORD.finditer(question.replace(".", "")))
    return frozenset(word for word in words if len(word) in _LENGTHS and word not in _UNSAID)


def expansion_around(text: str, sentence: Span, span: Span, abbreviations: Collection[str]) -> Span | None:
    """The words around a span whose initials spell one of the abbreviations."""
    words = [(word[0].casefold(), word.start(), word.end()) for word in _WORD.finditer(text, *sentence)]
    for first, (_, start, _) in enumerate(words):
        for abbreviation in abbreviations if start <= span[0] else ():
            end = _spelt(words[first:], abbreviation)
            if end is not None and span[1] <= end:
                return start, end
    return None


def _spelt(words: list[tuple[str, int, int]], abbreviation: str) -> int | None:
    """The end of the words with these initials; "and", "of" and the like are skipped."""
    at = 0
    for word, _, end in words:
        if word[0] == abbreviation[at]:
            at += 1
            if at == len(abbreviation):
                return end
        elif not at or word not in _UNSAID:
            return None
    return None
