"""Answers that are displayed whole, of which the reader marks a part: definitions, periods, dates, lists, expansions.

definition  "What is democracy?", "Who is Angela Merkel?" or "democracy": where an article with that title begins, what
            follows the "is" of its first sentence is one answer ("form of government in which …"), whichever part of
            it is read. Otherwise the parts compete, and the shortest wins ("government").
period      "In which years …?", "When did … reign?", "How long did … last?": a year or date that begins or ends a
            period is displayed as the whole of it ("1979 to 1990", "1861 until his assassination in 1865").
range       "How many species …?", "How heavy is …?": a number that begins or ends a range is displayed with the other
            ("between 9 and 11"), unless the question asks for one of them ("at most", "the heaviest").
date        "On what day …?", "birthday of …": a year or month is displayed with its day ("July 20, 1969").
list        "What are the five boroughs …?": an item with all of its enumeration (`lists.py`).
species     "What is the scientific name of …?": a genus with the word that makes it a species ("Apis mellifera").
expansion   "What does UNESCO stand for?": all words whose initials spell it (`expansions.py`).
kind        "Which university …?": a name with the word for its kind next to it (`kind_names.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from realm_core.corpus.records import Block, Span
from realm_core.questions.answers import normalise_answer
from realm_core.serving.english.choices import Choices
from realm_core.serving.english.expansions import abbreviations_in, expansion_around
from realm_core.serving.english.kind_names import NameKind, kinds_asked_for
from realm_core.serving.english.lists import enumeration_around, items_asked_for
from realm_core.serving.naming import TITLE_ASIDE
from realm_core.text.months import FULL_MONTH
from realm_core.text.sentences import sentence_spans

_ASKS_WHAT = re.compile(
    r"(?:(?P<asks>what|who)(?:['’]?s|\s+(?:is|are|was|were))\s+)?(?P<term>.+?)[\s?.!]*", re.IGNORECASE | re.DOTALL
)
_ASKS_PERIOD = re.compile(
    r"\b(?:in|during|between|for) (?:which|what) years\b|^(?:which|what) years\b|\bfrom when (?:to|until|till)\b"
    r"|\bhow long (?:did|was|were)\b"
    r"|\bwhen did\b.*\b(?:reign|rule|serve|last|exist|live)\b"
    r"|\bwhat (?:years|period)\b|\b(?:dates|years)\W*$|\bwhen was\b.*\b(?:in power|in office)\b"
    r"|\bwhen was\b.*\b(?:king|queen|emperor|empress|sultan|khan|pope|president|chancellor|prime minister)\W*$",
    re.IGNORECASE,
)
_ASKS_SIZE = re.compile(
    r"(?!.*\b(?:most|least|(?:max|min)imum|up to|\w+est|more|less|fewer|over|under)\b).*"
    r"\b(?:how (?:many|much|long|tall|high|big|large|heavy|old|far|deep|wide|fast)"
    r"|length|height|weight|size|population)\b",
    re.IGNORECASE | re.DOTALL,
)
_ASKS_DATE = re.compile(
    r"(?<!to )\bdate\b|\b(?:what|which) (?:exact )?day\b|\bbirthday\b|\bday and (?:month|year)\b|\bwhen exactly\b"
    r"|\bexactly when\b",
    re.IGNORECASE,
)
_ASKS_SPECIES = re.compile(r"\b(?:scientific|latin|botanical|zoological|species) name\b", re.IGNORECASE)
_SPECIES = re.compile(r"\b[A-Z][a-z]+ [a-z]{3,}(?=[),;.]| L\.)")
_COPULA = re.compile(r"\b(?:is|are|was|were) ")
_CLAUSE_ENDS = re.compile(r"[,;:] |\s[–—] ")
_LONGEST_DEFINITION = 250  # characters; of a longer one its first clauses
_DAY = rf"(?:(?:\d{{1,2}} )?{FULL_MONTH} |{FULL_MONTH} \d{{1,2}}, )"  # before its year
_DATE = re.compile(rf"{_DAY}?\d{{3,4}}")
_FULL_DATE = re.compile(rf"\b(?:\d{{1,2}} {FULL_MONTH}|{FULL_MONTH} \d{{1,2}})\b(?:,? \d{{3,4}}\b)?")
_DATE_OR_ERA = rf"{_DATE.pattern}(?: (?:BCE?|AD|CE)\b)?"
_FEW = r"(?:[^\W\d]+ )"  # words before a date: "his assassination in 1865"
_PERIOD = re.compile(
    rf"\b(?P<begins>{_DATE_OR_ERA})(?: (?:to|until|till) |\s?[-–—]\s?){_FEW}{{0,5}}?{_DATE_OR_ERA}\b"
    rf"|\bbetween {_FEW}{{0,2}}?(?P<from>{_DATE_OR_ERA}) and {_FEW}{{0,2}}?{_DATE_OR_ERA}\b"
)
_NUMBER = r"\d[\d,.]*(?<![,.])"
_RANGE = re.compile(
    rf"\bbetween (?P<from>{_NUMBER}) and {_NUMBER}"
    rf"|(?<![\w–-])(?P<begins>{_NUMBER})(?: to |[–-]){_NUMBER}(?![\w–-])"
)


@dataclass(frozen=True)
class WholeAnswer:
    """The kind of whole answer that a question asks for.

    term: the term to define, normalised; asks: "what", "who", or "" for a term alone. items: how many there
    may be in a list; abbreviations: one is to be spelt out; kinds: of names.
    """

    term: str
    asks: str
    period: bool
    size: bool
    date: bool
    species: bool
    items: range
    abbreviations: frozenset[str]
    kinds: tuple[NameKind, ...]
    choices: Choices

    @classmethod
    def of(cls, question: str) -> WholeAnswer:
        asked = _ASKS_WHAT.fullmatch(question.strip())
        term = normalise_answer(asked["term"]) if asked else ""
        asks = (asked["asks"] or "").casefold() if asked else ""
        return cls(
            term,
            asks,
            _ASKS_PERIOD.search(question) is not None,
            _ASKS_SIZE.match(question) is not None,
            _ASKS_DATE.search(question) is not None,
            _ASKS_SPECIES.search(question) is not None,
            items_asked_for(question),
            abbreviations_in(question),
            kinds_asked_for(question),
            Choices.of(question),
        )

    @cached_property
    def _singular_term(self) -> str:
        return _singular(self.term)

    @cached_property
    def _full_forms(self) -> tuple[re.Pattern[str], ...]:
        return (*((_FULL_DATE,) if self.date else ()), *((_SPECIES,) if self.species else ()))

    def definition_in(self, block: Block) -> Span | None:
        """Where a block has the requested definition, in characters."""
        if block.start != 0 or not self._is_title(block.title):
            return None
        sentence = next(iter(sentence_spans(block.text)), (0, 0))
        copula = _COPULA.search(block.text, *sentence)
        if copula is None:
            return None
        start, end = copula.end(), sentence[1]
        end = start + len(block.text[start:end].rstrip(".!"))
        if end - start > _LONGEST_DEFINITION:
            clauses = _CLAUSE_ENDS.finditer(block.text, start, start + _LONGEST_DEFINITION)
            end = max((clause.start() for clause in clauses), default=start)
        return start, end

    def _is_title(self, title: str) -> bool:
        if self.asks == "who" and _bare(title).endswith(f" {self.term}"):
            return True
        return is_titled(self.term, title)

    def only_repeats(self, key: str) -> bool:
        """Whether a normalised answer only repeats the term: "A stellar black hole is a black hole"."""
        return self.asks != "" and _singular(key) == self._singular_term

    def around(self, text: str, start: int, end: int, definition: Span | None) -> Span:
        """The text displayed for the span text[start:end]; definition: its block's."""
        if self.choices.options and (option := self.choices.chosen_in(text, start, end)):
            return option
        if definition and definition[0] <= start and end <= definition[1]:
            return definition
        if self.period and _DATE.match(text, start, end):
            for period in _PERIOD.finditer(text):
                if period.start() <= start and end in (period.end("begins"), period.end("from"), period.end()):
                    return period.span()
        if self.size and (whole := _range_around(text, start, end)):
            return whole
        for form in self._full_forms:
            for full in form.finditer(text):
                if full.start() <= start and end <= full.end():
                    return full.span()
        if self.items or self.abbreviations:
            sentence = next((one for one in _sentences(text) if one[0] <= start < one[1]), (start, end))
            enumeration = enumeration_around(text, sentence, (start, end), self.items)
            return enumeration or expansion_around(text, sentence, (start, end), self.abbreviations) or (start, end)
        for kind in self.kinds:
            start, end = kind.around(text, start, end)
        return start, end


def _range_around(text: str, start: int, end: int) -> Span | None:
    """The range that a number begins or ends, with what the span has behind it ("between 9 and 11 species")."""
    for found in _RANGE.finditer(text):
        first, behind_first = found.span("from" if found["from"] else "begins")
        if start == first or behind_first < start < found.end():
            return found.start(), max(end, found.end())
    return None


@lru_cache(maxsize=64)  # of a block, for each of its spans
def _sentences(text: str) -> list[Span]:
    return sentence_spans(text)


def is_titled(term: str, title: str) -> bool:
    """Whether an article with this title is about the term: "black hole", "Black holes", "The Black Hole (film)"."""
    return bool(bare := _bare(title)) and _singular(bare) == _singular(normalise_answer(term))


def _bare(title: str) -> str:
    return normalise_answer(TITLE_ASIDE.sub("", title))


def _singular(term: str) -> str:
    return term.removesuffix("s")
