"""Questions for several things: an item of an enumeration is displayed with all of it.

"What are the five boroughs of New York City?" is not answered by "Manhattan". Where the question says how many, an
enumeration must have as many items; where it does not ("list of …", "names of the …"), three or more.

Where the first item begins and the last one ends is decided by capitals, if all items have them ("called Superior,
Michigan and Huron are"), otherwise by the words around ("types are igneous, sedimentary and metamorphic").
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final

from realm_core.corpus.records import Span

_NUMBERS: Final = "two three four five six seven eight nine ten eleven twelve".split()
_NUMBER: Final = rf"({'|'.join(_NUMBERS)}|[2-9]|1[0-2])"
_ASKS_SO_MANY: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:what|which|who)(?:['’]re| are| were| make up| made up) (?:the |all )?(?:\w+ )?{_NUMBER}"
        r" (?!of\b|most\b)\w",
        rf"\b(?:what|which) {_NUMBER} (?:\w+ )?\w+s\b",
        rf"\bnames of .*\b{_NUMBER} \w",
        rf"^(?:name|list) (?:the |all )?(?:\w+ )?{_NUMBER} \w",
        rf"^(?:the )?{_NUMBER} (?:\w+ ){{0,2}}\w+s\b",
    )
)
_ASKS_ALL: Final = re.compile(
    r"^(?:(?:what is|give me) )?(?:an? |the )?list (?:of|all)\b|^(?:list|name) (?:all )?the \w+s\b"
    r"|\bnames of (?:all|the)\b"
    r"|\b(?:names|members)\W*$|^(?:the )?members of\b|^who (?:are|were) (?:all )?the (?:\w+ )?members\b"
    r"|\bwhat (?:are|were) (?:the |some )?(?:\w+ )?"
    r"(?:symptoms|ingredients|types|kinds|parts|colou?rs|branches|stages)\b"
    r"|\b(?:what|which) \w+s (?:make|made) up\b"
    r"|\b(?:countries|states|nations|provinces) (?:that |which )?(?:border|surround|neighbou?r)"
    r"|\b(?:border|bordering|neighbou?ring) (?:countries|states|nations|provinces)\b|\bneighbou?rs of\b",
    re.IGNORECASE,
)
_LEAST_OF_ALL: Final = 3  # items: "A and B" is found in most sentences

_STRETCH: Final = re.compile(r"(?:(?![:;—]| – ).)+", re.DOTALL)  # of a sentence; no enumeration goes beyond it
_SEPARATOR: Final = re.compile(r"(?P<last>,? (?:and|or|&)(?: also|, [^,]{1,25},)? )|, ")
_ASIDE: Final = re.compile(r"\([^()]*\)")
_LONGEST_ITEM: Final = 60  # characters
_LONGEST: Final = 250  # characters of an enumeration
_CLAUSE: Final = re.compile(
    r"\b(?:such as|along|together|also (?:called|known)|is|are|was|were|has|have|had|that|which|who|whose|where|when)\b"
)
_CAPITAL: Final = re.compile(r"(?:the )?[A-ZÀ-ÞΑ-Ω\"“]")
_JOINS_NAMES: Final = r"(?:of|the|de|la|le|du|des|da|di|del|van|von|der)"
_NAME: Final = rf"{_CAPITAL.pattern}\S*(?: (?:{_JOINS_NAMES} )*{_CAPITAL.pattern}\S*)*(?: \([^()]*\))?"
_NAME_AT_END: Final = re.compile(rf"(?<![^\s—–]){_NAME}$")
_NAME_AT_START: Final = re.compile(_NAME)
_BEFORE_FIRST: Final = re.compile(
    r".*\b(?:is|are|was|were|be|include|includes|including|of|as|namely|called|named|termed|into|by|from|"
    r"between|with|like|for|in|to|on|have|has|contains?|being|either|both|the|an?|its|their|causes?)\s+",
    re.DOTALL | re.IGNORECASE,
)
_AFTER_LAST: Final = re.compile(
    r"\s(?:that|which|who|whose|where|when|in|on|at|is|are|was|were|with|for|from|by|as|to|of|have|has|being|can|may|"
    r"under|during|after|before)\b|\s?[.,;:()–—]"
)


def items_asked_for(question: str) -> range:
    """How many items a question asks for; empty unless it asks for several."""
    question = " ".join(question.split())
    for asks in _ASKS_SO_MANY:
        if found := asks.search(question):
            word = found[1].lower()
            count = int(word) if word.isdigit() else _NUMBERS.index(word) + 2
            return range(count, count + 1)
    return range(_LEAST_OF_ALL, 100) if _ASKS_ALL.search(question) else range(0)


def enumeration_around(text: str, sentence: Span, span: Span, counts: range) -> Span | None:
    """The enumeration of so many items around a span; None if the span is one itself."""
    if any(len(items) in counts for items in _enumerations(text, *span)):
        return None  # the reader knows better where it begins: "radium and polonium", not "elements radium and …"
    for items in _enumerations(text, *sentence):
        start, end = items[0][0], items[-1][1]
        if len(items) in counts and start <= span[0] and span[1] <= end <= start + _LONGEST:
            return start, end
    return None


def _enumerations(text: str, start: int, end: int) -> Iterator[list[Span]]:
    """The items of each enumeration of a sentence: "…, B, C and D …", from the earliest beginning."""
    asides = [aside.span() for aside in _ASIDE.finditer(text, start, end)]
    for stretch in _STRETCH.finditer(text, start, end):
        parts: list[Span] = []
        began = stretch.start()
        for separator in _SEPARATOR.finditer(text, *stretch.span()):
            if any(first < separator.start() < last for first, last in asides):
                continue
            parts.append((began, separator.start()))
            began = separator.end()
            if separator["last"] is not None:
                candidates = (_trimmed(text, [*parts[first:], (began, stretch.end())]) for first in range(len(parts)))
                yield from itertools.islice((items for items in candidates if items and not _cut(text, items)), 1)
                parts = []


def _cut(text: str, items: list[Span]) -> bool:
    """Whether an item is cut off: it has one of two brackets or quotation marks."""
    written = [text[start:end] for start, end in items]
    return any(
        one.count("(") != one.count(")") or one.count('"') % 2 or one.count("“") != one.count("”") for one in written
    )


def _trimmed(text: str, items: list[Span]) -> list[Span] | None:
    """The items without the words before the first and after the last; None if they are no list."""
    (start, first_end), *inner, (last_start, end) = items
    start += len(text[start:first_end]) - len(text[start:first_end].lstrip())
    if any(last - one > _LONGEST_ITEM or _CLAUSE.search(text, one, last) for one, last in inner):
        return None
    first, last = _NAME_AT_END.search(text, start, first_end), _NAME_AT_START.match(text, last_start, end)
    named = [first is not None, *(bool(_CAPITAL.match(text, one, other)) for one, other in inner), last is not None]
    if first and last and all(named):
        return [(first.start(), first_end), *inner, (last_start, last.end() - (text[last.end() - 1] in ",.;:"))]
    at_start = inner and first is not None and first.start() == start  # where every word has a capital
    if any(named[1:]) or (named[0] and not at_start):
        return None
    if before := _BEFORE_FIRST.match(text, start, first_end):
        start = before.end()
    after = _AFTER_LAST.search(text, last_start, end)
    if (
        after
        and after[0] == " ("
        and text[first_end - 1] == ")"
        and (aside := _ASIDE.match(text, after.end() - 1, end))
    ):
        last_end = aside.end()
    else:
        last_end = after.start() if after else end
    if not 0 < first_end - start <= _LONGEST_ITEM or not 0 < last_end - last_start <= _LONGEST_ITEM:
        return None
    return [(start, first_end), *inner, (last_start, last_end)]
