"""Questions about a future year or the winner of a year: only a block that names the year can answer them.

In other blocks the reader would mark the last winner.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection
from typing import Final

from realm_core.corpus.records import Block

_YEAR: Final = re.compile(r"(?<![\d.,])[1-9]\d{3}(?![\d.,]*\d)")
_GROUPED: Final = re.compile(r"(?<=\d),(?=\d{3})")
_ASKS_WINNER: Final = re.compile(
    r"\b(?:who|(?:which|what) \w+) (?:has |had )?won\b|\bwon by\b|\bwinners?\b", re.IGNORECASE
)
# The year is not that of the victory, or one of several, and a block may name others.
_OTHER_YEAR: Final = re.compile(
    r"\b(?:born|died|since|after|before|until|till|from|between|around|about)\b|[1-9]\d{3}(?:s\b|\s?[-–—])",
    re.IGNORECASE,
)


def years_to_name(question: str) -> frozenset[str]:
    """The years of a question that a block must name to answer it."""
    years = frozenset(_YEAR.findall(question))
    if _ASKS_WINNER.search(question) and not _OTHER_YEAR.search(question):
        return years
    return frozenset(year for year in years if int(year) > datetime.datetime.now(datetime.UTC).year)


def names_all(years: Collection[str], block: Block) -> bool:
    """Whether a block names all of these years, or numbers that look like them."""
    if not years:
        return True
    text = _GROUPED.sub("", f"{block.title} {block.text}")
    return all(year in text for year in years)
