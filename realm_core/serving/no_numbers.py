"""Questions whose answer cannot be a number or a date, in English: "Mozart's birthplace", "Who …?", "How did she die?".

Where a block does not name the place, the reader would mark the year of the birth. So the logits of spans that are only
a number or a date are lowered by `future_years.PENALTY`: another span wins, or "not here".

Legend: L wordpieces of a block, M longest span.
"""

from __future__ import annotations

import re
from typing import Final

import torch
from torch import Tensor

from realm_core.text.wordpieces import Encoded

_ASKS: Final = re.compile(
    r"\b(?:where|whom?|whose|birthplace|(?:birth|burial|death|resting) place|place of (?:birth|death|burial|origin))\b"
    r"|\b(?:which|what) (?:city|country|town|village|state|continent|county|province|region|island|river|ocean|sea"
    r"|mountain|planet|person|man|woman|king|queen|author|artist|composer|actor|actress|language|religion|animal"
    r"|instrument)\b|\bhow (?:did|was|were)\b",
    re.IGNORECASE,
)
# What asks for a number after all, or for a rank: "Where and when …?", "Who got how many …?", "Where in the line …?"
_ASKS_NUMBER: Final = re.compile(
    r"\b(?:when|years?|dates?|days?|months?|decades?|century|times?|ages?|how (?:many|much|old|long|tall|far|big|high"
    r"|deep|large)|numbers?|rank\w*|list|line|order|series|percent\w*|temperature|place (?:did|does|do|has|have))\b",
    re.IGNORECASE,
)
_PART: Final = re.compile(
    r"\d+(?:s|st|nd|rd|th)?|[^\w\s]+|st|nd|rd|th|s|bc|bce|ad|ce|c|circa|about|around|of|the|to|until|and|or|between|from|early|mid|late"
    r"|january|february|march|april|may|june|july|august|september|october|november|december",
    re.IGNORECASE,
)


def asks_no_number(question: str) -> bool:
    """Whether a number or a date cannot be the answer."""
    return _ASKS.search(question) is not None and _ASKS_NUMBER.search(question) is None


def numbers_alone(body: Encoded, text: str, longest: int) -> Tensor:
    """bool [L, M]: the spans of a block's text that are nothing but a number or a date."""
    pieces = [text[start:end] for start, end in body.offsets]
    parts_L = torch.tensor([_PART.fullmatch(piece) is not None for piece in pieces], dtype=torch.int32)
    digits_L = torch.tensor([piece[:1].isdigit() for piece in pieces], dtype=torch.int32)
    return (_sums(parts_L, longest) == torch.arange(1, longest + 1)) & (_sums(digits_L, longest) > 0)


def _sums(values_L: Tensor, longest: int) -> Tensor:
    """The sum over each span [L, M]; what would lie behind the last wordpiece counts 0."""
    return torch.nn.functional.pad(values_L, (0, longest - 1)).unfold(0, longest, 1).cumsum(1)
