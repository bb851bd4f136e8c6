"""Questions whose answer cannot be a number or a date: "Mozart's birthplace", "In which German city …?", "Who …?", "How
did she die?"; those whose answer is a number, but no date: "How old was Mozart when he died?"; and those whose answer
has a number: "How many …?".

Where a block does not name the place, the reader would mark the year of the birth, where it does not tell the age, the
year of the death, and where it counts nothing, names.

Legend: L wordpieces of a block, M longest span.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

import torch
from torch import Tensor

from realm_core.text.months import FULL_MONTH
from realm_core.text.wordpieces import Encoded
from realm_core.text.written_out import SMALL_NUMBERS

_NO_VERB: Final = r"(?!(?:is|was|are|were|did|do|does|has|have|had|of|in|on|for|to|by|at)\b)"
_NAMED: Final = (  # kinds of things that are called by names; not of works, which may be: "1984"
    "cit(?:y|ies)|countr(?:y|ies)|count(?:y|ies)|compan(?:y|ies)|part(?:y|ies)|universit(?:y|ies)|dynast(?:y|ies)|deit(?:y|ies)"
    "|(?:town|village|state|continent|province|region|island|peninsula|valley|strait|river|lake|ocean|sea|gulf|mountain"
    "|desert|planet|port|capital|empire|kingdom|nation|tribe|person|man|king|queen|emperor|prince|pope|saint|prophet"
    "|leader|ruler|admiral|author|writer|poet|artist|painter|sculptor|composer|actor|director|philosopher|scientist"
    "|mathematician|physicist|chemist|explorer|god|language|script|alphabet|religion|profession|occupation"
    "|nationality|school|organi[sz]ation|institution|metal|element|gas|material|substance|mineral|organ|bone|gland"
    "|muscle|animal|mammal|bird|insect|reptile|plant|tree|flower|fruit|vegetable|genus|colou?r|instrument|sport"
    "|weapon)s?|(?:princess|actress|goddess|empress|fish|church|species|branch)(?:es)?|woman|women|men|people"
)
_ASKS: Final = re.compile(
    r"\b(?:where|whom?|whose|birthplace|(?:birth|burial|death|resting) place|place of (?:birth|death|burial|origin))\b"
    rf"|\b(?:which|what) (?:{_NO_VERB}[\w'’-]+ ){{0,3}}?(?:{_NAMED})\b(?!['’])|\bhow (?:did|was|were)\b",
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
    r"\d+(?:s|st|nd|rd|th)?|[^\w\s]+|st|nd|rd|th|s|bc|bce|ad|ce|c|circa|about|around|in|on|of|the|to|until|and|or|between|from"
    rf"|early|mid|late|{FULL_MONTH}",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"\d+")
_DATE: Final = re.compile(rf"\b(?:1\d{{3}}|20\d\d)s?\b(?!,\d)|\b\d+ (?:bce?|ad|ce)\b|\b{FULL_MONTH}\b", re.IGNORECASE)
# "How many …?", but not "What tells how many …?"
_ASKS_COUNT: Final = re.compile(
    r"(?!.*\b(?:what|which|who|where|when|why|name|see)\b).*\bhow many\b", re.IGNORECASE | re.DOTALL
)
_COUNT: Final = re.compile(
    rf"\d|\b(?:{'|'.join(SMALL_NUMBERS)}|hundreds?|thousands?|(?:m|b|tr)illions?|dozens?|scores?|pairs?|couple|both|twins?"
    r"|half|single|double|triple|once|twice|thrice|\w+th|first|second|third|no|none|never|an?|only|several|few|some|many"
    r"|most|majority|all|every|each|any|numerous|multiple|various|countless|unlimited|infinite(?:ly)?|unprecedented)\b",
    re.IGNORECASE,
)


class WrongKind(Enum):
    """Spans that cannot answer."""

    NUMBER = "a number or a date alone"
    DATE = "a date alone"
    UNCOUNTED = "without a number"


def wrong_kind(question: str) -> WrongKind | None:
    """The kind of spans that cannot answer a question."""
    if _ASKS_AGE.search(question):
        return WrongKind.DATE
    if _ASKS_COUNT.match(question):
        return WrongKind.UNCOUNTED
    return WrongKind.NUMBER if _ASKS.search(question) and not _ASKS_NUMBER.search(question) else None


def spans_of(kind: WrongKind, body: Encoded, text: str, longest: int) -> Tensor:
    """bool [L, M]: the spans of a block that are of this kind."""
    if kind is WrongKind.UNCOUNTED:
        return _having(_COUNT, body, text, longest) == 0
    parts_L = torch.tensor([_PART.fullmatch(text[start:end]) is not None for start, end in body.offsets])
    alone_LM = _sums(parts_L, longest) == torch.arange(1, longest + 1)
    return alone_LM & (_having(_NUMBER if kind is WrongKind.NUMBER else _DATE, body, text, longest) > 0)


def _having(pattern: re.Pattern[str], body: Encoded, text: str, longest: int) -> Tensor:
    """The number of wordpieces in each span [L, M] that begin within a match."""
    places = {place for found in pattern.finditer(text) for place in range(*found.span())}
    return _sums(torch.tensor([start in places for start, _ in body.offsets]), longest)


def _sums(values_L: Tensor, longest: int) -> Tensor:
    """The sum over each span [L, M]; places behind the last wordpiece count 0."""
    values_L = values_L.to(torch.int32)
    return torch.nn.functional.pad(values_L, (0, longest - 1)).unfold(0, longest, 1).cumsum(1)
