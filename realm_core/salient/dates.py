"""Dates in running text by one regular expression: the salient spans besides names.

Months with or without day and year, single years from 1000 to 2099, ranges of years, decades, centuries and years with
an era. Numbers that only look like years (house numbers, kilometres, parts of a longer number) are excluded as far as
their context shows.
"""

from __future__ import annotations

import re

from realm_core.salient.spans import DATE, TaggedSpan
from realm_core.text.months import FULL_MONTH

_MONTH = rf"(?:{FULL_MONTH}|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?)"
_DAY = r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?"
_DAYS = rf"{_DAY}(?:\s?[–-]\s?{_DAY})?"
_YEAR = r"(?:1\d{3}|20\d\d)"
_ERA = r"(?:BCE|BC|CE|AD|B\.C\.(?:E\.)?|A\.D\.|C\.E\.)"
_ORDINAL = (
    r"(?:\d{1,2}(?:st|nd|rd|th)|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth"
    r"|thirteenth|fourteenth|fifteenth|sixteenth|seventeenth|eighteenth|nineteenth|twentieth|twenty-first)"
)
# Units: a four-digit number before one is not a year.
_UNIT = (
    r"(?:[kcm]?m|[km]?g|t|ft|mi|mph|rpm|[kM]?Hz|hp|[kM]?W|V|K|cc|[kMG]?B|[kMG]bit|[kMG]bps|nm|lbs?|sq|°[CF]"
    r"|acres?|miles?|met(?:er|re)s?|kilomet(?:er|re)s?|feet|foot|yards?|inch(?:es)?|tons?|tonnes?|people|inhabitants"
    r"|residents|men|women|soldiers|troops|years|days|hours|minutes|seconds|points|votes|copies|students|species|times"
    r"|dollars|euros|pounds|square|cubic|degrees|volts|watts|volumes|pages|seats|families|households)"
)
# Not next to part of a word, a longer number, a price, a decimal or an address.
_BEFORE = (
    r"(?:(?<=\b[Mm]id-)|(?<=\b[Pp]re-)|(?<=\b[Pp]ost-)"
    r"|(?<![\w$€£¥#%.,:/+&=\\-])(?<!\d–)(?<!\b[Nn]o\.\s)(?<!\bRoute\s)(?<!\bHighway\s))"
)
_AFTER = rf"(?![\w%°′″])(?![.,:/]\d)(?!-\w)(?!\s{_UNIT}\b)"
# A month alone counts only after one of these, because "May" and "March" are ambiguous.
_INTRODUCTIONS = (
    "in of by since until till from during early mid late last next each every through between to and that this "
    "following previous"
).split()
_INTRODUCED = "|".join(rf"(?<=\b[{word[0].upper()}{word[0]}]{word[1:]}[\s-])" for word in _INTRODUCTIONS)

_PATTERN = re.compile(
    rf"""
      \b{_DAYS}\s(?:of\s)?{_MONTH}(?:,?\s{_YEAR}(?:\s{_ERA}\b)?)?(?!\w)      # 17 November 1869, 3rd of May
    | \b{_MONTH}\s{_DAYS}(?:,?\s{_YEAR})?(?!\w)                               # November 17, 1869
    | \b{_MONTH},?\s(?:of\s)?{_YEAR}(?!\w)                                    # November 1869
    | (?<![\w/.-]){_YEAR}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?![\w-])  # 1869-11-17
    | (?<![\w$.,–-])(?:AD|A\.D\.|CE)\s\d{{1,4}}(?![\w,.]\d)(?!\w)             # AD 79
    | (?<![\w$.,–-])\d{{1,4}}(?:\s?[–-]\s?\d{{1,4}})?\s{_ERA}(?!\w)           # 44 BC
    | {_BEFORE}(?:1\d\d|20\d)0['’]?s\b                                       # 1990s
    | (?<!\w)['’][1-9]0s\b                                                    # '90s
    | \b{_ORDINAL}(?:[ ](?:and|to|or)[ ]{_ORDINAL}|[–-]{_ORDINAL})?[ -][Cc]entur(?:y|ies)(?:\s{_ERA}(?!\w))?
    | {_BEFORE}{_YEAR}\s?[–/-]\s?(?:{_YEAR}|\d\d)(?![\w%°-])(?![.,:/]\d)      # 1914–1918, 1914–18
    | {_BEFORE}{_YEAR}{_AFTER}
    | \b(?={FULL_MONTH})(?:{_INTRODUCED}){FULL_MONTH}(?![\w-])(?!\s[A-Z])   # in November
    """,
    re.VERBOSE,
)


def dates(text: str) -> list[TaggedSpan]:
    """All dates in `text`, in order, without overlaps."""
    return [TaggedSpan(*match.span(), DATE) for match in _PATTERN.finditer(text)]


def holds_date(text: str) -> bool:
    return _PATTERN.search(text) is not None
