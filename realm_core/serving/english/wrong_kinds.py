"""Questions whose answer cannot be a number or a date: "Mozart's birthplace", "Who …?", "How did she die?"; and those
whose answer is a number, but no date: "How old was Mozart when he died?".

Where a block does not name the place, the reader would mark the year of the birth, and where it does not tell the age,
the year of the death.

Legend: L wordpieces of a block, M longest span.
"""

from __future__ import annotations

import re
from typing import Final

import torch
from torch import Tensor

from realm_core.salient.dates import FULL_MONTH
from realm_core.text.wordpieces import Encoded

_ASKS: Final = re.compile(
    r"\b(?:where|whom?|whose|birthplace|(?:birth|burial|death|resting) place|place of (?:birth|death|burial|origin))\b"
    r"|\b(?:which|what) (?:city|country|town|village|state|continent|county|province|region|island|river|ocean|sea"
    r"|mountain|planet|person|man|woman|king|queen|author|artist|composer|actor|actress|language|religion|animal"
    r"|instrument)\b|\bhow (?:did|was|were)\b",
    re.IGNORECASE,
)
# Questions for a number after all, or for a rank: "Where and when …?", "Who got how many …?", "Where in the line …?"
_ASKS_NUMBER: Final = re.compile(
    r"\b(?:when|years?|dates?|days?|months?|decades?|century|times?|ages?|how (?:many|much|old|long|tall|far|big|high"
    r"|deep|large)|numbers?|rank\w*|list|line|order|series|percent\w*|temperature|place (?:did|does|do|has|have))\b",
    re.IGNORECASE,
)
_ASKS_AGE: Final = re.compile(
    r"\bhow old (?:was|were|had|did)\b|\b(?:what|which) age\b|\bhow long did .+ live\b", re.IGNORECASE
)
# A span of only such parts is a number or a date; one of these parts decides which.
_PART: Final = re.compile(
    r"\d+(?:s|st|nd|rd|th)?|[^\w\s]+|st|nd|rd|th|s|bc|bce|ad|ce|c|circa|about|around|of|the|to|until|and|or|between|from"
    rf"|early|mid|late|{FULL_MONTH}",
    re.IGNORECASE,
)
NUMBER: Final = re.compile(r"\d+")
DATE: Final = re.compile(rf"\b(?:1\d{{3}}|20\d\d)s?\b(?!,\d)|\b\d+ (?:bce?|ad|ce)\b|\b{FULL_MONTH}\b", re.IGNORECASE)


def cannot_answer(question: str) -> re.Pattern[str] | None:
    """`NUMBER` or `DATE`, if spans of only numbers and dates, with one of that kind, cannot answer."""
    if _ASKS_AGE.search(question):
        return DATE
    return NUMBER if _ASKS.search(question) and not _ASKS_NUMBER.search(question) else None


def spans_of(kind: re.Pattern[str], body: Encoded, text: str, longest: int) -> Tensor:
    """bool [L, M]: the spans of a block that are only numbers and dates, with one of this kind."""
    parts_L = torch.tensor([_PART.fullmatch(text[start:end]) is not None for start, end in body.offsets])
    places = {place for found in kind.finditer(text) for place in range(*found.span())}
    of_kind_L = torch.tensor([start in places for start, _ in body.offsets])
    return (_sums(parts_L, longest) == torch.arange(1, longest + 1)) & (_sums(of_kind_L, longest) > 0)


def _sums(values_L: Tensor, longest: int) -> Tensor:
    """The sum over each span [L, M]; places behind the last wordpiece count 0."""
    values_L = values_L.to(torch.int32)
    return torch.nn.functional.pad(values_L, (0, longest - 1)).unfold(0, longest, 1).cumsum(1)
