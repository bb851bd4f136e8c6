"""What people shorten, as articles write it: "1984" may be the novel Nineteen Eighty-Four, "ww2" is World War II."""

from __future__ import annotations

import re
from typing import Final

_YEAR: Final = re.compile(r"(?<![\w.,/–-])(?P<century>1[1-9]|20)(?P<year>[1-9]\d)(?![\w/–-]|[.,]\d)")
_WAR: Final = re.compile(r"\b(?:ww|world war) ?(?P<number>ii?|[12])\b", re.IGNORECASE)
_TO_NINETEEN: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety".split()
SMALL_NUMBERS: Final = (*_TO_NINETEEN, *_TENS)
_WARS: Final = {"1": "World War I", "i": "World War I", "2": "World War II", "ii": "World War II"}


def written_out(question: str) -> list[tuple[re.Match[str], str, list[str]]]:
    """(what is short, written out, words that an article must have for it to be meant), in order.

    A year is a year unless a title has it in words. Those of the first decade of a century are said in several ways.
    """
    found = []
    for year in _YEAR.finditer(question):
        whole = f"{_below_100(year['century'])} {_below_100(year['year'])}"
        found.append((year, whole, re.split("[ -]", whole)))
    for war in _WAR.finditer(question):
        if (whole := _WARS[war["number"].lower()]).lower() != war[0].lower():
            found.append((war, whole, []))
    return sorted(found, key=lambda one: one[0].start())


def _below_100(digits: str) -> str:
    number = int(digits)
    if number < len(_TO_NINETEEN):
        return _TO_NINETEEN[number]
    tens, units = divmod(number, 10)
    return _TENS[tens - 2] + (f"-{_TO_NINETEEN[units]}" if units else "")
