"""How far a typed word is from one that may be meant: weighted errors of typing and spelling.

Errors are those of optimal string alignment: letters left out, added, replaced, or exchanged with a neighbour. What
people do more often counts for less: a letter of a pair left out or a letter doubled, an h that is not heard,
neighbours exchanged, a vowel for another or left out ("austrlia" is Australia rather than Austria). An error in the
first letter, which is seldom wrong, counts for more. The weights follow Kernighan, Church and Gale (1990), "A Spelling
Correction Program Based on a Noisy Channel Model", in kind; their sizes are round numbers.
"""

from __future__ import annotations

from typing import Final

_VOWELS: Final = frozenset("aeiouy")
_PAIR: Final = 0.6  # a letter of a pair left out, or a letter doubled
_SILENT: Final = 0.6  # an h left out or added: "ghandi"
_EXCHANGED: Final = 0.8
_VOWEL: Final = 0.8  # one for another, or left out
_OTHER: Final = 1.1
_FIRST: Final = 0.6  # added where the first letter is wrong


def typing_cost(typed: str, meant: str) -> float:
    """The least sum of the errors that make one word of the other."""
    before_last: list[float] = []
    last = [0.0]
    for column in range(len(meant)):
        last.append(last[-1] + _left_out(meant, column))
    for row, letter in enumerate(typed):
        now = [last[0] + _one_more(typed, row)]
        for column, other in enumerate(meant):
            least = min(
                last[column + 1] + _one_more(typed, row),
                now[column] + _left_out(meant, column),
                last[column] + _replaced(letter, other, first=row == column == 0),
            )
            if row and column and letter != other and (letter, typed[row - 1]) == (meant[column - 1], other):
                least = min(least, before_last[column - 1] + _EXCHANGED + (_FIRST if row == column == 1 else 0.0))
            now.append(least)
        before_last, last = last, now
    return last[-1]


def _one_more(word: str, place: int) -> float:
    """A letter that the other word does not have."""
    if word[place] in (word[place - 1 : place], word[place + 1 : place + 2]):
        return _PAIR
    if place and word[place] == "h":
        return _SILENT
    return _OTHER if place else _OTHER + _FIRST


def _left_out(meant: str, place: int) -> float:
    """A letter that was not typed."""
    return min(_one_more(meant, place), _VOWEL if place and meant[place] in _VOWELS else _OTHER + _FIRST)


def _replaced(letter: str, other: str, *, first: bool) -> float:
    if letter == other:
        return 0.0
    return (_VOWEL if {letter, other} <= _VOWELS else _OTHER) + (_FIRST if first else 0.0)
