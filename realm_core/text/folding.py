"""Text without case and accents, to compare words by."""

from __future__ import annotations

import itertools
import unicodedata


def folded(text: str) -> str:
    """In lower case and without accents."""
    if text.isascii():
        return text.lower()
    return "".join(itertools.filterfalse(unicodedata.combining, unicodedata.normalize("NFKD", text.lower())))


def folded_places(text: str) -> tuple[str, list[int]]:
    """(folded, where each of its characters stands in `text`, and the end of `text`). They may differ in length.

    “½” becomes three characters, an accent that is a character of its own none.
    """
    if text.isascii():
        return text.lower(), list(range(len(text) + 1))
    lower, at = text.lower(), 0  # of the whole: a sigma's lower case depends on what is around it
    characters: list[str] = []
    places: list[int] = []
    for place, one in enumerate(text):
        size = len(one.lower())
        kept = folded(lower[at : at + size])
        characters.append(kept)
        places += [place] * len(kept)
        at += size
    return "".join(characters), [*places, len(text)]
