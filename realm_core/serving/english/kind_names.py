"""Names with the word for their kind, which is often left out or next to them, if a question asks for the kind.

school       "Which university …?": "Princeton" is "Princeton University", "Eton" is "Eton College, Windsor"
party        "Which party …?": "Democratic" is "Democratic Party", "Labor Party" "Australian Labor Party"
team, ship   "Real Madrid" is "Real Madrid C.F.", "Beagle" is "HMS Beagle"
currency     "What money …?": "peso" is "Mexican peso"
music        "What type of music …?": "Baroque" is "Baroque music"
government   "What form of government …?": "parliamentary" is "parliamentary system"
time zone    "Central" is "Central Time Zone"

The word must stand next to the name in the block, or the name with it must be the title of an article that was read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from realm_core.corpus.records import Span
from realm_core.questions.answers import normalise_answer
from realm_core.serving.english.implied import ADJECTIVE
from realm_core.serving.naming import TITLE_ASIDE

_NOTHING = "(?!)"  # a pattern that matches nowhere
_NATIONAL = rf"\b{ADJECTIVE} "
_SCHOOLS = "University|College|School|Academy|Institute of Technology"
_IN_ITS_TOWN = (
    r"(?:(?:(?<=College)|(?<=School)), [A-Z][a-z]+(?=[.;)]| [a-z(])(?! (?:and|or)\b))?"  # no list's next item
)
_SHIP = "(?:HMS|RMS|USS)"
_CLUB = r"(?:[AFC]\.?){2,3}"  # "F.C.", "AFC", "C.F."


@dataclass(frozen=True)
class NameKind:
    """A kind of names that questions ask for.

    asked: in the question. before, after: what a block may have next to the name and what then belongs to it. titled:
    the title of an article about one, whose groups are the name by itself.
    """

    asked: re.Pattern[str]
    before: re.Pattern[str]
    after: re.Pattern[str]
    titled: re.Pattern[str]

    def around(self, text: str, start: int, end: int) -> Span:
        """The name text[start:end] with what belongs to it."""
        if following := self.after.match(text, end):
            end = following.end()
        for preceding in self.before.finditer(text, 0, start):
            if preceding.end() == start:
                return preceding.start(), end
        return start, end


def _kind(asked: str, *, before: str = _NOTHING, after: str = _NOTHING, titled: str = _NOTHING) -> NameKind:
    return NameKind(re.compile(asked, re.IGNORECASE), re.compile(before), re.compile(after), re.compile(titled))


_KINDS = (
    _kind(
        r"\b(?:college|university|universities|school)\b",
        before=r"\bUniversity of ",
        after=rf"(?: (?:{_SCHOOLS})\b)?{_IN_ITS_TOWN}",
        titled=rf"(.+) (?:{_SCHOOLS})|(.+ (?:College|School)), [A-Z][a-z]+",
    ),
    _kind(r"\bparty\b", before=_NATIONAL, after=r" Party\b", titled=rf"{_NATIONAL}((.+) Party)|(.+) Party"),
    _kind(
        r"\b(?:team|club)\b|\bplay(?:s|ed|ing)? for\b|\bwon\b.*\b(?:cup|league|final)\b",
        titled=rf"(.+) {_CLUB}|{_CLUB} (.+)",
    ),
    _kind(r"\b(?:ship|boat|vessel|submarine)\b", before=rf"\b{_SHIP} ", titled=rf"{_SHIP} (.+)"),
    _kind(r"\b(?:currency|money)\b", before=_NATIONAL, titled=rf"{_NATIONAL}([a-z].+)"),
    _kind(r"\b(?:type|kind|style|genre|sort)s? of music\b|\bmusic(?:al)? genre\b", after=" music\\b"),
    _kind(r"\bgovernment\b", after=r" (?:system|republic|monarchy|democracy)\b"),
    _kind(r"\btime ?zone\b", after=r" (?:Standard )?Time(?: Zone)?\b"),
)


# Asks for something else, in whose question the kind only stands: "In which city is the University of Chicago?"
_ASKS_OTHERWISE = re.compile(
    r"\bhow (?:many|much)\b|^when\b"
    r"|\b(?:which|what) (?:[\w-]+ ){0,2}?(?:city|town|village|country|state|province|region|continent|county|place"
    r"|year|century|date|day|person|people)\b"
    r"|^who\b(?!.*\b(?:play(?:s|ed|ing)? for|won)\b)"
    r"|^where\b(?!.*\b(?:go|goes|going|went|attend\w*|stud\w+|educated)\b)",
    re.IGNORECASE,
)


def kinds_asked_for(question: str) -> tuple[NameKind, ...]:
    if _ASKS_OTHERWISE.search(question.strip()):
        return ()
    return tuple(kind for kind in _KINDS if kind.asked.search(question))


def titles_of_kind(question: str, titles: Iterable[str], keys: Collection[str]) -> dict[str, str]:
    """Normalised answer → the title of its article, if a question asks for the kind and `titles` has one such article.

    "Trinity College" is neither that of Cambridge nor that of Dublin if both were read.
    """
    found: dict[str, set[str]] = {}
    kinds = kinds_asked_for(question)
    for title in {TITLE_ASIDE.sub("", title) for title in titles} if kinds else ():
        for matched in filter(None, (kind.titled.fullmatch(title) for kind in kinds)):
            for key in {normalise_answer(name) for name in matched.groups() if name} & set(keys):
                found.setdefault(key, set()).add(title)
    return {key: own.pop() for key, own in found.items() if len(own) == 1}
