"""Names that differ by their number: a block on Nicholas II hardly answers a question about Nicholas I.

The reader takes one for the other. A block may tell of both, so that counts against it and does not forbid it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_ROMAN: Final = {"i": 1, "v": 5, "x": 10, "l": 50}
_NUMBERED: Final = re.compile(r"\b(?P<name>[^\W\d_]{3,}) (?P<number>[ivxl]{1,6}|\d{1,3})\b(?![.,]?\d)", re.IGNORECASE)


@dataclass(frozen=True)
class NumberedNames:
    """The numbers that stand behind each name of a question: {"nicholas": {1}}."""

    numbers: dict[str, frozenset[int]]

    @classmethod
    def of(cls, text: str) -> NumberedNames:
        found: dict[str, set[int]] = {}
        for one in _NUMBERED.finditer(text):
            found.setdefault(one["name"].lower(), set()).add(_value(one["number"].lower()))
        return cls({name: frozenset(numbers) for name, numbers in found.items()})

    def differ_from(self, title: str) -> bool:
        """Whether a title has one of these names, but with other numbers."""
        if not self.numbers:
            return False
        others = NumberedNames.of(title).numbers
        return any(name in others and not numbers & others[name] for name, numbers in self.numbers.items())


def _value(number: str) -> int:
    if number.isdecimal():
        return int(number)
    digits = [_ROMAN[letter] for letter in number]
    return sum(-one if one < following else one for one, following in zip(digits, [*digits[1:], 0], strict=True))
