"""English superlatives of a text, with the ordinal before each and the nouns after it: "the second-largest city"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from realm_core.text.spelling import folded

_ORDINALS: Final = {
    name: place
    for place, names in enumerate(
        "second/2nd third/3rd fourth/4th fifth/5th sixth/6th seventh/7th eighth/8th ninth/9th tenth/10th".split(), 2
    )
    for name in names.split("/")
}
# What people type for the usual word.
SAME: Final = {"biggest": "largest", "tallest": "highest", "quickest": "fastest", "tiniest": "smallest"}
# Those that rank things; others ("honest", "best-known") need not.
_RANKING: Final = (
    "largest biggest smallest tiniest highest tallest lowest longest shortest deepest widest oldest youngest fastest "
    "quickest slowest heaviest lightest hottest coldest driest wettest brightest richest poorest hardest "
    "strongest busiest"
).split()
_NOUNS: Final = 4  # words after a superlative among which its noun is looked for
_ENDS: Final = "in|of|on|by|to|at|and|or|is|was|that|which|after|with|within|for|among|the|ever"  # the nouns
_SUPERLATIVE: Final = re.compile(
    rf"(?P<among>\b(?:one|some|two|three|among) (?:of )?(?:the )?(?:world's )?)?"
    rf"(?:\b(?P<ordinal>{'|'.join(_ORDINALS)})[ -])?"
    rf"\b(?P<superlative>{'|'.join(_RANKING)}|most [a-z]{{4,}})"
    rf"(?P<nouns>(?:[ -](?!(?:{_ENDS})\b)[a-z']+){{0,{_NOUNS}}})"
    rf"(?P<after>[^.;]*?\b(?:after|behind|following|followed|surpass\w*|overt\w+)\b)?"
)


@dataclass(frozen=True)
class Ranked:
    """One superlative. place: 1 without an ordinal. nouns: the words after it. alone: it tells of one thing's rank."""

    superlative: str
    place: int
    nouns: frozenset[str]
    alone: bool


def ranked_in(text: str) -> list[Ranked]:
    """The superlatives of a text, in order."""
    return [
        Ranked(
            SAME.get(match["superlative"], match["superlative"]),
            _ORDINALS.get(match["ordinal"], 1),
            frozenset(re.findall(r"[a-z']+", match["nouns"])),
            not match["among"] and not match["after"],
        )
        for match in _SUPERLATIVE.finditer(folded(text))
    ]
