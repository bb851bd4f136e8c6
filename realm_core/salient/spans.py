"""Salient spans: names and dates. Pre-training masks them, because predicting them takes world knowledge.

A `Tagger` finds them in a text. Its spans are trimmed to the name itself, and of two that overlap the longer is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from realm_core.errors import RealmError

DATE = "DATE"
OUTSIDE = "O"  # the tag of a word outside of names

# White space, quotation marks, brackets and punctuation that taggers include by mistake. Not the full stop, which may
# belong to an abbreviation ("U.S.", "Inc."), nor "&" and "+", with which names can begin and end.
_EDGE = " \t\n\r\u00a0\"'“”‘’«»„‚`()[]{}<>,;:!?…–—-*/|"
_ARTICLE = re.compile(r"the\s+(?=\S)", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’]s$")
_NO_NAMES = frozenset(("a", "an", "s", "the"))  # remainders of spans such as "the 's"
# A full stop after a word of at least five letters or a number ends a sentence, not an abbreviation.
_SENTENCE_STOP = re.compile(r"(?:\b[^\W\d_]{5,}|\d)\.+$")


@dataclass(frozen=True, slots=True)
class TaggedSpan:
    """Characters [start, end) of a text with the label of the name."""

    start: int
    end: int
    label: str


class Tagger(Protocol):
    """Finds names in texts. Models are loaded at the first call of `spans`.

    labels:       all labels that spans may have, in a fixed order, at most 255.
    description:  JSON that differs whenever the spans may differ; the identity of a cache.
    """

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def description(self) -> dict[str, Any]: ...

    def spans(self, texts: Sequence[str], rows: Sequence[int] = ()) -> list[list[TaggedSpan]]:
        """The spans of each text, ordered by start, without overlaps.

        rows: the rows of the texts' blocks, for taggers that need more than the text.
        """
        ...


def check_labels(tagger: str, labels: Sequence[str] | None, known: Sequence[str]) -> None:
    """`RealmError` if a tagger has not all the labels that are to be kept."""
    if unknown := sorted(set(labels or ()) - set(known)):
        raise RealmError(f"{tagger} has no label {', '.join(unknown)}, only {', '.join(known)}.")


def trimmed(text: str, span: TaggedSpan) -> TaggedSpan | None:
    """The span without a leading "the", a possessive ending and surrounding punctuation; None if nothing is left."""
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
    return TaggedSpan(start, end, span.label)


def longest(spans: Iterable[TaggedSpan]) -> list[TaggedSpan]:
    """`spans` without overlaps: of two that overlap the longer is kept, of equal lengths the earlier."""
    kept: list[TaggedSpan] = []
    for span in sorted(spans, key=lambda span: (span.start - span.end, span.start)):
        if all(span.end <= other.start or other.end <= span.start for other in kept):
            kept.append(span)
    return sorted(kept, key=lambda span: span.start)


def joined_words(words: Iterable[tuple[int, int, str, str]]) -> list[TaggedSpan]:
    """Joins tagged words (start, end, prefix, label) to names; a prefix is one of BIESLU or empty.

    A name begins where the label changes and at B, S and U; it ends where the label changes and after E, L, S, U.
    """
    spans: list[TaggedSpan] = []
    open_ = False
    for start, end, prefix, label in words:
        if label == OUTSIDE:
            open_ = False
            continue
        if open_ and prefix not in ("B", "S", "U") and spans[-1].label == label:
            spans[-1] = TaggedSpan(spans[-1].start, end, label)
        else:
            spans.append(TaggedSpan(start, end, label))
        open_ = prefix not in ("E", "L", "S", "U")
    return spans


def _without_edges(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in _EDGE:
        start += 1
    while start < end and text[end - 1] in _EDGE and not _closes(text, start, end):
        end -= 1
    return start, end


def _closes(text: str, start: int, end: int) -> bool:
    """Whether the last character closes a bracket within the span: "Paris (Texas)"."""
    opening = {")": "(", "]": "["}.get(text[end - 1])
    return opening is not None and opening in text[start : end - 1]
