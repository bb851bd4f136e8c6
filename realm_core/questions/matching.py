"""Finds an answer in a text: every span of whole words whose normalised form equals the answer's.

"the Nile", "Nile" and "Nile," match the same answer; all are correct spans, and their probabilities are summed
(paper, section 3.2: S(z, y) is the set of spans that match y).
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from realm_core.questions.answers import ARTICLES, answer_pattern, normalise_answer
from realm_core.text.wordpieces import Encoded

_PUNCTUATION = frozenset(string.punctuation)
# No span begins or ends with these, although normalising would remove them.
_NO_FIRST = frozenset(".,;:!?%)]}\"'»”’")
_NO_LAST = frozenset(",;:!?([{\"'«“‘")


@dataclass(frozen=True)
class NormalText:
    """A text after `normalise_answer`, with the position in the original of each of its characters."""

    normal: str
    places: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> NormalText:
        """Normalise `text` and keep the original position of each character."""
        decomposed = [
            (character, place) for place, one in enumerate(text) for character in unicodedata.normalize("NFD", one)
        ]
        _reorder_marks(decomposed)
        # Lower-casing decomposed text keeps its length, but must see the whole text: final Σ depends on its neighbours.
        lower = "".join(character for character, _ in decomposed).lower()
        kept = [
            (character, place)
            for character, (_, place) in zip(lower, decomposed, strict=True)
            if character not in _PUNCTUATION
        ]
        joined = "".join(character for character, _ in kept)
        characters = list(joined)
        for article in ARTICLES.finditer(joined):
            for position in range(*article.span()):
                characters[position] = " "
        normal: list[str] = []
        places: list[int] = []
        for character, (_, place) in zip(characters, kept, strict=True):
            if character.isspace():
                if not normal or normal[-1] == " ":
                    continue
                character = " "
            normal.append(character)
            places.append(place)
        if normal and normal[-1] == " ":
            normal.pop()
            places.pop()
        return cls("".join(normal), tuple(places))


def _reorder_marks(decomposed: list[tuple[str, int]]) -> None:
    """Sort adjacent combining marks into canonical order, in place: the part of NFD that spans characters."""
    start = 0
    for stop in range(len(decomposed) + 1):
        if stop == len(decomposed) or not unicodedata.combining(decomposed[stop][0]):
            if stop - start > 1:
                decomposed[start:stop] = sorted(decomposed[start:stop], key=lambda item: unicodedata.combining(item[0]))
            start = stop + 1


def word_edges(encoded: Encoded) -> tuple[list[bool], list[bool]]:
    """For each wordpiece, whether it starts a word, and whether it ends one."""
    words = encoded.words
    starts = [i == 0 or words[i] != words[i - 1] for i in range(len(words))]
    ends = [i == len(words) - 1 or words[i] != words[i + 1] for i in range(len(words))]
    return starts, ends


def answer_spans(
    text: str, normal: NormalText, encoded: Encoded, answers: Sequence[str], answer_type: str, max_wordpieces: int
) -> set[tuple[int, int]]:
    """All spans (first wordpiece, last wordpiece) of whole words that match one of the answers."""
    regions: list[tuple[int, int, int, int]] = []
    if answer_type == "regex":
        for expression in answers:
            regions.extend((start, start, end, end) for start, end in answer_pattern(expression).spans(text))
    else:
        for answer in answers:
            regions.extend(_regions(normal, normalise_answer(answer), len(text)))
    if not regions:
        return set()
    is_start, is_end = word_edges(encoded)
    spans = set()
    for earliest_start, latest_start, earliest_end, latest_end in regions:
        firsts = [
            i
            for i, (start, end) in enumerate(encoded.offsets)
            if is_start[i] and earliest_start <= start <= latest_start
        ]
        lasts = [i for i, (_, end) in enumerate(encoded.offsets) if is_end[i] and earliest_end <= end <= latest_end]
        if not lasts and answer_type == "regex":  # the match ends within a word: extend it to the word's end
            lasts = [i for i, (_, end) in enumerate(encoded.offsets) if is_end[i] and end >= earliest_end][:1]
        for first in firsts:
            for last in lasts:
                span_text = text[encoded.offsets[first][0] : encoded.offsets[last][1]]
                if 0 <= last - first < max_wordpieces and _well_cut(span_text):
                    spans.add((first, last))
    return spans


def _well_cut(span_text: str) -> bool:
    if span_text[0] in _NO_FIRST or span_text[-1] in _NO_LAST:
        return False
    if span_text.count("(") != span_text.count(")"):
        return False
    return not span_text.endswith(".") or "." in span_text[:-1]  # "U.S." but not the end of a sentence


def _regions(normal: NormalText, answer: str, text_length: int) -> list[tuple[int, int, int, int]]:
    """Occurrences of a normalised answer: (earliest start, latest start, earliest end, latest end) in characters."""
    regions: list[tuple[int, int, int, int]] = []
    if not answer:
        return regions
    padded, wanted = f" {normal.normal} ", f" {answer} "
    position = padded.find(wanted)
    while position >= 0:
        first, last = position, position + len(answer) - 1  # in `normal`, which lacks the leading space
        before, after = normal.normal[:first].rstrip(), normal.normal[last + 1 :].lstrip()
        regions.append(
            (
                normal.places[len(before) - 1] + 1 if before else 0,
                normal.places[first],
                normal.places[last] + 1,
                normal.places[-len(after)] if after else text_length,
            )
        )
        position = padded.find(wanted, position + 1)
    return regions
