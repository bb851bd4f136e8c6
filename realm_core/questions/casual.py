"""Turns well-written questions into ones as typed into a search box: lower case, keywords only, misspelt."""

from __future__ import annotations

import random
import re

# Words that keyword queries leave out.
_DROPPED = frozenset(
    "a an the is are was were be been being do does did has have had of in on at to for from by with and or as it its "
    "that this which what who whom whose there s".split()
)
_ASKING = re.compile(r"^(?:what|which|who)(?:'s|\s+(?:is|are|was|were))?\s+(?:the\s+)?", re.IGNORECASE)
_NEIGHBOURS = {
    letter: row[max(0, place - 1) : place] + row[place + 1 : place + 2]
    for row in ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    for place, letter in enumerate(row)
}
_SHORTEST_MISSPELT = 4  # letters
_KEYWORDS, _MISSPELT = 0.35, 0.45  # shares of casual questions, drawn independently


def casually(question: str, draw: random.Random) -> str:
    """The question in lower case without its question mark, at random also as keywords or misspelt."""
    typed = question.lower().rstrip("?. ")
    if draw.random() < _KEYWORDS:
        typed = _keywords(typed)
    if draw.random() < _MISSPELT:
        typed = _misspelt(typed, draw)
    return typed or question


def _keywords(question: str) -> str:
    words = _ASKING.sub("", question).split()
    kept = [word for word in words if word.strip(",.'\"") not in _DROPPED]
    return " ".join(kept) if len(kept) > 1 else question


def _misspelt(question: str, draw: random.Random) -> str:
    words = question.split()
    long = [place for place, word in enumerate(words) if len(word) >= _SHORTEST_MISSPELT and word.isalpha()]
    for place in draw.sample(long, min(len(long), draw.choice((1, 1, 2)))):
        words[place] = _typo(words[place], draw)
    return " ".join(words)


def _typo(word: str, draw: random.Random) -> str:
    """One letter left out, doubled, swapped with the next, or replaced by a neighbouring key or another vowel."""
    at = draw.randrange(1, len(word) - 1)
    kind = draw.randrange(5)
    if kind == 0:
        return word[:at] + word[at + 1 :]
    if kind == 1:
        return word[:at] + word[at] + word[at:]
    if kind == 2:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if kind == 3 and word[at] in "aeiou":
        return word[:at] + draw.choice("aeiou") + word[at + 1 :]
    return word[:at] + draw.choice(_NEIGHBOURS.get(word[at], word[at])) + word[at + 1 :]
