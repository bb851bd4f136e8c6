"""English superlatives of a text, with the ordinal before each and the nouns after it: "the second-largest city".

And what a text says of the rank that a question asks for (`Standing`): the same rank, another, or the same among fewer
("the largest lake in Africa" for "the largest lake in the world").
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from realm_core.text.folding import folded
from realm_core.text.spelling import words_of

_ORDINALS: Final = {
    name: place
    for place, names in enumerate(
        "second/2nd third/3rd fourth/4th fifth/5th sixth/6th seventh/7th eighth/8th ninth/9th tenth/10th".split(), 2
    )
    for name in names.split("/")
}
# What people type for the usual word.
SAME: Final = {
    "biggest": "largest",
    "tallest": "highest",
    "quickest": "fastest",
    "tiniest": "smallest",
    "most common": "most abundant",
}
# With "highest" these mean the same: an almanac names the highest point of a country, people ask for its mountain.
_SUMMITS: Final = frozenset("mountain mount peak summit point".split())
_FORMS: Final = {usual: [usual, *(one for one, other in SAME.items() if other == usual)] for usual in SAME.values()}
# Those that rank things; others ("honest", "best-known") need not.
_RANKING: Final = (
    "largest biggest smallest tiniest highest tallest lowest longest shortest deepest widest oldest youngest fastest "
    "quickest slowest heaviest lightest hottest coldest driest wettest brightest richest poorest hardest "
    "strongest busiest"
).split()
_ON_LAND: Final = frozenset("land terrestrial".split())
_NOUNS: Final = 4  # words after a superlative among which its noun is looked for
_SAY_NOTHING: Final = frozenset("chemical known living extant existing ever single individual".split())  # among these
_KINDS: Final = ("species", "type", "kind", "breed", "member")  # "the largest species of bird" is of birds
_ENDS: Final = "in|of|on|by|to|at|and|or|is|was|that|which|after|with|within|for|among|the|ever"  # the nouns
_SUPERLATIVE: Final = re.compile(
    rf"(?P<among>\b(?:one|some|two|three|among) (?:of )?(?:the )?(?:world's )?)?(?P<are>\bare (?:the )?(?:world's )?)?"
    rf"(?:\b(?P<ordinal>{'|'.join(_ORDINALS)})[ -])?"
    rf"\b(?P<superlative>{'|'.join(_RANKING)}|most [a-z]{{4,}})"
    rf"(?P<nouns>(?:[ -](?!(?:{_ENDS})\b)[a-z']+){{0,{_NOUNS}}})"
    rf"(?:(?:{'|'.join(f'(?<= {kind})' for kind in _KINDS)}) of (?:the )?(?P<kind>[a-z']+))?"
    rf"(?P<after>[^.;]*?\b(?:after|behind|following|followed|surpass\w*|overt\w+|outside|excluding|except)\b)?"
)

# "Which planet is the second largest?"
_ASKS_WHICH: Final = re.compile(
    rf"(?:which|what) (?P<noun>[a-z]+)(?: (?:on|in|of) [a-z ]+)? (?:is|was) the (?:(?:{'|'.join(_ORDINALS)})[ -])?"
    rf"(?:{'|'.join(_RANKING)}|most [a-z]{{4,}})\b"
)
# "the tallest, largest and heaviest species of deer": the nouns stand behind the last.
_COORDINATED: Final = re.compile(r",?(?: and)?(?: the)? ")

# Where a superlative holds, if that is a name: "Africa's largest lake", "the largest lake by area in Africa".
_NAME: Final = r"[A-Z][\w’'-]*(?: [A-Z][\w’'-]*)*"
# "in Gujarat, India", "in Russia and Europe"
_NAMES: Final = rf"{_NAME}(?:(?:,|,? and|,? or| of| in) (?:the |in |of )*{_NAME})*"
_SCOPE_AFTER: Final = re.compile(rf"[^.;,]{{0,25}}?\b(?:in|of|on|within|among|for|by) (?:the )?(?P<scope>{_NAMES})")
_SCOPE_BEFORE: Final = re.compile(r"\b(?P<scope>[A-Z]\w+)['’]s (?:\w+ )?$")
_LONGEST_BEFORE: Final = 30  # characters
_WORLD: Final = frozenset("world globe planet universe solar system history".split())
_EARTH: Final = frozenset(["earth"])
_BEYOND_EARTH: Final = frozenset("universe galaxy solar".split())
_LINKING: Final = frozenset("the and or of in".split())
_DIRECTIONS: Final = frozenset("north south east west northern southern eastern western central".split())


@dataclass(frozen=True)
class Ranked:
    """One superlative. place: 1 without an ordinal. nouns: the words after it. alone: it tells of one thing's rank.

    scope: the words of the name of what it holds in ("Africa"), folded; none if that is the world, or not a name.
    earlier: where it has no nouns, the words before it in its sentence: "the fifth planet, and the largest in …".
    head: the last of the nouns, which the others narrow ("largest freshwater lake"); empty without nouns.
    of_kind: the nouns name a species, type, … of it.
    """

    superlative: str
    place: int
    nouns: frozenset[str]
    alone: bool
    scope: frozenset[str] = frozenset()
    earlier: frozenset[str] = frozenset()
    head: str = ""
    of_kind: bool = False

    def is_of(self, nouns: frozenset[str]) -> bool:
        """Whether it ranks what these nouns name, and nothing narrower. Typed, "planet solar system" are all nouns."""
        if self.nouns:
            return self.nouns <= nouns
        return bool(nouns & self.earlier) and nouns - self.earlier <= _WORLD | _EARTH | self.scope

    def holds_in(self, words: frozenset[str]) -> bool:
        """Whether it holds in the whole world, or in what one of these words names: not in South for North America."""
        scope = self.scope if words & _BEYOND_EARTH else self.scope - _EARTH
        named = scope - _DIRECTIONS or scope
        return not scope or (bool(named & words) and not (scope - words) & _DIRECTIONS)

    def is_narrower(self, asked: Ranked, words: frozenset[str]) -> bool:
        """Whether it ranks a part of what is asked of, for a question with these words: deer, or animals of Asia."""
        return not self.holds_in(words) or (self.of_kind and self.head not in asked.nouns)


class Standing(Enum):
    """What a text says of a rank."""

    SAME = "same"
    NARROWER = "narrower"  # a rank in something that the question does not name, or among a kind of it
    OTHER = "other"  # other ranks alone
    UNSAID = "unsaid"


@dataclass(frozen=True)
class AskedRank:
    """The one rank that a question asks for. words: those of the question, folded."""

    ranked: Ranked
    words: frozenset[str]

    @classmethod
    def of(cls, question: str) -> AskedRank | None:
        """None where a question has no superlative with a noun, or several."""
        found = ranked_in(question)
        if len(found) == 1 and not found[0].nouns and (asks := _ASKS_WHICH.match(folded(question))):
            found = [dataclasses.replace(found[0], nouns=frozenset([asks["noun"]]), head=asks["noun"])]
        found = [one for one in found if one.nouns]
        return cls(found[0], frozenset(words_of(question))) if len(found) == 1 and found[0].alone else None

    def standing_in(self, text: str) -> Standing:
        """Something narrower ("the most abundant noble gas" for a gas) says nothing of it."""
        asked, plain = self.ranked, folded(text)
        if not any(form in plain for form in _FORMS.get(asked.superlative, [asked.superlative])):
            return Standing.UNSAID  # most blocks: told at once
        alike = [one for one in ranked_in(text) if one.superlative == asked.superlative]
        own = [one for one in alike if one.is_of(asked.nouns)]
        same = [one for one in own if one.alone and one.place == asked.place]
        if any(one.holds_in(self.words) for one in same) or any(self._has_first_of_kind(one, text) for one in alike):
            return Standing.SAME
        telling = [one for one in alike if one.nouns or one.scope]
        if same or (telling and not own and all(one.is_narrower(asked, self.words) for one in telling)):
            return Standing.NARROWER
        return Standing.OTHER if own and all(one.alone for one in own) else Standing.UNSAID

    def _has_first_of_kind(self, one: Ranked, text: str) -> bool:
        """Whether `one` is the first of a narrower kind in the world, and its text names the place that is asked of.

        The largest freshwater lake in the world lies in North America, so it is probably the largest lake there.
        """
        asked = self.ranked
        is_narrower = one.head in asked.nouns and one.nouns - asked.nouns
        if not (is_narrower and one.alone and not one.scope and one.place == asked.place == 1):
            return False
        place = asked.scope | asked.nouns - {one.head}
        return bool(place) and all(re.search(rf"\b{re.escape(word.capitalize())}\b", text) for word in place)


def ranked_in(text: str) -> list[Ranked]:
    plain = folded(text)
    written = text if len(text) == len(plain) else plain  # where the characters differ in number, scopes are not known
    matches = list(_SUPERLATIVE.finditer(plain))
    named = list(matches)  # the match that has the nouns of each
    for place in range(len(matches) - 2, -1, -1):
        between = plain[matches[place].end("nouns") : matches[place + 1].start()]
        if not matches[place]["nouns"] and _COORDINATED.fullmatch(between):
            named[place] = named[place + 1]
    return [_ranked(match, own, plain, written) for match, own in zip(matches, named, strict=True)]


def _ranked(match: re.Match[str], named: re.Match[str], plain: str, written: str) -> Ranked:
    """named: the match with the nouns of this one."""
    words = [word for word in re.findall(r"[a-z']+", named["kind"] or named["nouns"]) if word not in _SAY_NOTHING]
    if match["are"] is not None:  # "giraffes are the tallest animals" tells of one kind's rank
        words = [re.sub("(?<=[a-z]{2})s$", "", re.sub("ies$", "y", word)) for word in words]
    nouns = frozenset(words)
    superlative = SAME.get(match["superlative"], match["superlative"])
    if superlative == "highest":  # nothing is tall in water
        nouns -= _ON_LAND
    if superlative == "highest" and nouns & _SUMMITS:
        nouns = nouns - _SUMMITS | {"mountain"}
    sentence = max(plain.rfind(end, 0, match.start()) for end in (". ", ";")) + 1
    return Ranked(
        superlative,
        _ORDINALS.get(match["ordinal"], 1),
        nouns,
        not match["among"] and not match["after"],
        _scope(written, match.start(), named.end("nouns")),
        frozenset() if nouns else frozenset(words_of(plain[sentence : match.start()])),
        words[-1] if words else "",
        named["kind"] is not None,
    )


def _scope(text: str, start: int, end: int) -> frozenset[str]:
    found = _SCOPE_BEFORE.search(text[max(0, start - _LONGEST_BEFORE) : start]) or _SCOPE_AFTER.match(text, end)
    words = words_of(found["scope"]) if found else frozenset()
    return frozenset(words) - _WORLD - _LINKING
