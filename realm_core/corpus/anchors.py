"""Where the anchors of links stand in a text while it is cleaned.

An anchor is the visible text of a link. While brackets are resolved, two characters mark its ends. Later its offsets
are kept beside the text and follow every edit. No edit sees a mark: the text is the same with and without links.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from realm_core.corpus.prose import Replacement, Substitutions
from realm_core.corpus.records import Span

# Two of the characters that Unicode keeps for such uses: no text has them, and no entity stands for one.
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
_MARK = re.compile(f"([{_OPEN}{_CLOSE}])")


def marked(words: str) -> str:
    """The words of a link, with marks around them."""
    return f"{_OPEN}{words}{_CLOSE}"


def unmarked(text: str) -> str:
    return text.replace(_OPEN, "").replace(_CLOSE, "")


class Anchored(NamedTuple):
    """A text, and the characters [start, end) of each anchor in it, in order, none overlapping."""

    text: str
    anchors: list[Span]

    @classmethod
    def read(cls, text: str) -> Anchored:
        """The text without its marks. Of nested links the inner one counts; an unpaired mark is ignored."""
        pieces: list[str] = []
        anchors: list[Span] = []
        position = 0
        start: int | None = None
        for piece in _MARK.split(text):
            if piece == _OPEN:
                start = position
            elif piece == _CLOSE:
                if start is not None:
                    anchors.append((start, position))
                start = None
            else:
                pieces.append(piece)
                position += len(piece)
        return cls("".join(pieces), anchors)

    def edited(self, rules: Substitutions) -> Anchored:
        """The text with every rule's matches replaced, and the anchors where they now stand."""
        text, anchors = self
        for pattern, replacement in rules:
            changed = pattern.sub(replacement, text)
            if anchors and changed != text:
                anchors = _moved(anchors, pattern.finditer(text), replacement)
            text = changed
        return Anchored(text, anchors)

    def cut(self, start: int, end: int) -> Anchored:
        """Characters [start, end), and of each anchor what lies in them."""
        anchors = [(max(s, start) - start, min(e, end) - start) for s, e in self.anchors if s < end and e > start]
        return Anchored(self.text[start:end], anchors)

    def strip(self) -> Anchored:
        """Without white space at either end."""
        stripped = self.text.strip()
        if len(stripped) == len(self.text):
            return self
        start = len(self.text) - len(self.text.lstrip())
        return self.cut(start, start + len(stripped))

    def lines(self) -> Iterator[Anchored]:
        """The lines, without their ends; an anchor over two lines is left out."""
        start = number = 0
        for line in self.text.split("\n"):
            end = start + len(line)
            anchors: list[Span] = []
            while number < len(self.anchors) and self.anchors[number][0] <= end:
                s, e = self.anchors[number]
                if e <= end:
                    anchors.append((s - start, e - start))
                number += 1
            yield Anchored(line, anchors)
            start = end + 1


def join_anchored(separator: str, parts: Iterable[Anchored]) -> Anchored:
    texts: list[str] = []
    anchors: list[Span] = []
    position = 0
    for part in parts:
        texts.append(part.text)
        anchors.extend((position + start, position + end) for start, end in part.anchors)
        position += len(part.text) + len(separator)
    return Anchored(separator.join(texts), anchors)


def _moved(anchors: list[Span], matches: Iterable[re.Match[str]], replacement: Replacement) -> list[Span]:
    """The anchors after the matches are replaced; an anchor in a removed part moves to its edge."""
    places = [place for anchor in anchors for place in anchor]
    moved: list[int] = []
    shift = 0  # how much longer the text has become so far
    for match in matches:
        start, end = match.span()
        kept = replacement if isinstance(replacement, str) else replacement(match)
        first = start + max(0, match[0].find(kept))  # where in the match begins what is kept of it
        while len(moved) < len(places) and (place := places[len(moved)]) < end:
            moved.append(shift + min(place, start + min(max(0, place - first), len(kept))))
        if len(moved) == len(places):
            break
        shift += len(kept) - (end - start)
    moved.extend(place + shift for place in places[len(moved) :])
    return list(zip(moved[::2], moved[1::2], strict=True))
