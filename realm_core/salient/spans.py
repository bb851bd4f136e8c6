"""Salient spans: names and dates, what masking hides so that only knowledge of the world can fill it in.

A `Tagger` finds them in a text. What it finds is trimmed to the name itself, and where two overlap the longer
one wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

DATE = "DATE"
OUTSIDE = "O"  # the tag of a word that is part of no name

# White space, quotation marks, brackets and punctuation that taggers take along. No full stop: that may be the
# abbreviation's ("U.S.", "Inc."), and no "&" or "+", with which names begin and end.
_EDGE = " \t\n\r\u00a0\"'“”‘’«»„‚`()[]{}<>,;:!?…–—-*/|"
_ARTICLE = re.compile(r"the\s+(?=\S)", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’]s$")
_NO_NAMES = frozenset(("a", "an", "s", "the"))  # what is left of "the 's"
# A full stop behind a word of five letters or more, or behind a number, ends a sentence and no abbreviation.
_SENTENCE_STOP = re.compile(r"(?:\b[^\W\d_]{5,}|\d)\.+$")


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a text, and what kind of name stands there."""

    start: int
    end: int
    label: str


class Tagger(Protocol):
    """Finds names in texts. Nothing heavy is loaded before the first call of `spans`.

    labels:       every label that a span may have, in a fixed order, at most 255.
    description:  plain JSON that differs whenever the spans may differ; a cache is of one description.
    """

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def description(self) -> dict[str, Any]: ...

    def spans(self, texts: Sequence[str], rows: Sequence[int] = ()) -> list[list[Span]]:
        """For each text its spans, in order of their start, none overlapping.

        rows: the blocks that the texts are of, for a tagger that knows more of a block than its text.
        """
        ...


def trimmed(text: str, span: Span) -> Span | None:
    """The span without a leading "the", a possessive's ending and punctuation around it; None if nothing is left."""
    start, end = _without_edges(text, span.start, span.end)
    article = _ARTICLE.match(text, start, end)
    if article is not None:
        start, end = _without_edges(text, article.end(), end)
    possessive = _POSSESSIVE.search(text[start:end])
    if possessive is not None:
        start, end = _without_edges(text, start, start + possessive.start())
    if _SENTENCE_STOP.search(text[start:end]):
        end -= 1
    name = text[start:end]
    if name.lower() in _NO_NAMES or not any(character.isalnum() for character in name):
        return None
    return Span(start, end, span.label)


def longest(spans: Iterable[Span]) -> list[Span]:
    """Those of `spans` that stay when of two that overlap the longer (the earlier, if equally long) wins."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start - span.end, span.start)):
        if all(span.end <= other.start or other.end <= span.start for other in kept):
            kept.append(span)
    return sorted(kept, key=lambda span: span.start)


def joined_words(words: Iterable[tuple[int, int, str, str]]) -> list[Span]:
    """Names out of words in order, each (start, end, prefix, label); a prefix is one of BIESLU or empty.

    A name begins where the label changes and at B, S and U; it ends where the label changes and behind E, L, S, U.
    """
    spans: list[Span] = []
    open_ = False
    for start, end, prefix, label in words:
        if label == OUTSIDE:
            open_ = False
            continue
        if open_ and prefix not in ("B", "S", "U") and spans[-1].label == label:
            spans[-1] = Span(spans[-1].start, end, label)
        else:
            spans.append(Span(start, end, label))
        open_ = prefix not in ("E", "L", "S", "U")
    return spans


def _without_edges(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in _EDGE:
        start += 1
    while start < end and text[end - 1] in _EDGE and not _closes(text, start, end):
        end -= 1
    return start, end


def _closes(text: str, start: int, end: int) -> bool:
    """Whether the last character closes a bracket that opens within: "Paris (Texas)"."""
    opening = {")": "(", "]": "["}.get(text[end - 1])
    return opening is not None and opening in text[start : end - 1]
