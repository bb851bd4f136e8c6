"""Questions about the asker, the moment, the future or taste: hardly answered by a block without such words.

To "What is my dog's name?" the reader would mark a breed, and to "Who will be the first person on Mars?" the first one
on the Moon. A title ("My Fair Lady") has its words in the block that tells of it. That they are missing counts against
a block and does not forbid it, because a text may say the same in other words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_DAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_TIME: Final = (
    "right now|at the moment|tonight|tomorrow|yesterday|last night|this (?:morning|evening|afternoon|weekend)"
    f"|next (?:week|weekend|month|{_DAY})"
)
# Of a question, and of a block that may answer it.
_ASKER: Final = (
    # "When was I Love Lucy first broadcast?", "I, Robot" and "I-95" are names.
    r".+\bmy\b|.*\b(?:did|am|was|have|had) i\b(?!\.|-\d|(?-i:,? [A-Z][a-z]))"
    r"|.*\b(?:near|behind|with|called|photo of) me\b",
    r"\b(?:my|me|mine)\b",
)
_MOMENT: Final = (
    rf".*\b(?:{_TIME})\b|what time is it\b"
    r"|.*\b(?:news|weather|prices?|rate|open|tv|television|traffic)\b.*\b(?:today|now)\b",
    rf"\b(?:now|today|current|currently|incumbent|since|present|extant|{_TIME})\b",
)
_FUTURE: Final = (
    r".*\b(?:who(?:['’]s| is| are)? (?:will|going to)|when will|(?:which|what) (?:year|date|day)\b.* will)\b"
    r"(?! not| never)|what will .+ (?:be|cost)\b"
    r"|.*\b(?:which|what|how (?:many|much))(?: [\w-]+){1,3} will (?:be|cost|get|have|host|live|win)\b",
    r"\b(?:will|shall|expects?|expected|predicts?|predicted|forecast|project(?:ed|ions?)|scheduled|planned|future|upcoming"
    r"|20[3-9]\d|2[1-9]\d\d)\b",
)
_TASTES: Final = {
    "beautiful": "most beautiful",
    "prett": "prettie(?:r|st)",
    "funn": "funnie(?:r|st)",
    "nice": "nice(?:r|st)",
    "cool": "coolest",
    "cute": "cute(?:r|st)",
    "tast": "tastie(?:r|st)",
    "ugl": "uglie(?:r|st)",
    "favou?r": "favou?rite",
    "better": r"better\b.*\b(?:or|than)",
    "worse": r"worse\b.*\b(?:or|than)",
}
_KINDS: Final = [
    (re.compile(question, re.IGNORECASE), re.compile(block, re.IGNORECASE))
    for question, block in (
        _ASKER,
        _MOMENT,
        _FUTURE,
        *((rf".*\b{asked}\b", rf"\b{stem}") for stem, asked in _TASTES.items()),
    )
]


@dataclass(frozen=True)
class ToldWords:
    """What a block must have to answer a question: one match of each pattern."""

    patterns: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def of(cls, question: str) -> ToldWords:
        return cls(tuple(told for asked, told in _KINDS if asked.match(question)))

    def are_in(self, title: str, text: str) -> bool:
        """Whether a block with this title and text has them."""
        return all(pattern.search(title) or pattern.search(text) for pattern in self.patterns)
