"""Misspelt questions: readings in which each unknown word is one of the known words nearest to it.

Known are English words with how often they occur (pyspellchecker's list, counted in film subtitles), the whole words
of the models' vocabulary, and the words of a corpus's titles. Which reading is meant (`meant`) is decided as a noisy
channel does (Kernighan, Church and Gale, 1990), with the retriever in the place of a language model:

    f of the nearest block + Σ over the replaced words of  log₁₀ occurrences − 6 · errors + 0.7 · letters − 2.4

Long words are seldom near to another one by chance, and frequent words are meant more often. The weights were fitted on
training questions with errors put into them and on public ones with names that no list has.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

from realm_core.text.folding import folded
from realm_core.text.language import foreign_language
from realm_core.text.typing_errors import typing_cost
from realm_core.text.wordpieces import Wordpieces
from realm_core.text.written_out import written_out

MOST_READINGS: Final = 20  # of a question, itself included; each is one short sequence for the query embedder
NEAR_TYPED: Final = 20  # blocks nearest to the question as it was typed, whose words count as right
NEAR_READ: Final = 3  # blocks nearest to another reading; the first may be a dictionary's, which counts for less
_WORD: Final = re.compile(r"[^\W\d_]+")
_SHORTEST, _LONGEST = 4, 32  # characters of a word that is looked up; shorter ones have too many neighbours
_TWO_ERRORS_FROM: Final = 5  # characters; shorter words may have one error
_NEAREST: Final = {1: 8, 2: 5, 3: 3}  # known words that each of so many unknown ones is read as; of more words, two
_MOST_COMBINED: Final = 256  # readings of which the likeliest are taken
_COMMON: Final = 100  # occurrences of an English word from which on another word may be read as it
_WORDPIECE_WORTH: Final = 300  # occurrences that a place in the vocabulary counts as
_TITLE_WORTH: Final = 30  # occurrences that one title counts as
_SHORT: Final = 2.0  # worth of an abbreviation written out that has no other meaning
_ERROR, _LETTER, _CHANGE = 6.0, 0.7, 2.4  # docs/experiments.md, “Misspelt questions”


def words_of(text: str) -> set[str]:
    """Its words of letters, folded."""
    return set(_WORD.findall(folded(text)))


@dataclass(frozen=True)
class QuestionReading:
    """A question as it may be meant. replaced: misspelt words → those in their places.

    needed: words that its nearest block must have: those that only titles of the corpus have, or a year's in words.
    worth: how likely it is meant, before a block is looked at, as a summand of a block's score f; as typed, 0.
    """

    text: str
    replaced: Mapping[str, str] = field(default_factory=dict)
    needed: frozenset[str] = frozenset()
    worth: float = 0.0


class TitledText(Protocol):
    """A block."""

    @property
    def title(self) -> str: ...

    @property
    def text(self) -> str: ...


# How many blocks are wanted of each reading → those nearest to it, with their scores, the nearest first.
FindNearest = Callable[[Sequence[int]], Sequence[tuple[Sequence[TitledText], Sequence[float]]]]


class Lexicon:
    """Words, in lower case and without accents, and how often each occurs.

    common: those that others are read as, with what they are worth in occurrences.
    """

    def __init__(self, counts: Mapping[str, int], common: Mapping[str, int]) -> None:
        self._counts, self._common = counts, common
        self._by_length: defaultdict[int, list[str]] = defaultdict(list)
        self._by_start: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        for word in common:
            self._by_length[len(word)].append(word)
            self._by_start[len(word), word[0]].append(word)

    @classmethod
    def of_titles(cls, titles: Iterable[str]) -> Lexicon:
        """The words of titles; they are read as plurals, too ("koalas")."""
        found = Counter(word for title in titles for word in _WORD.findall(folded(title)))
        counts = {word: count * _TITLE_WORTH for word, count in found.items()}
        plurals = {f"{word}s": worth for word, worth in counts.items() if len(word) > 3 and not word.endswith("s")}
        return cls(counts, {word: worth for word, worth in (plurals | counts).items() if len(word) > 2})

    def count(self, word: str) -> int:
        """How often a word occurs; 0 for an unknown one."""
        return self._counts.get(word, 0)

    def near(self, word: str, errors: int) -> dict[str, int]:
        """The common words with at most so many errors (`typing_errors.py`), one or two, and how often each occurs.

        With two errors none is in the first letter, or it would be another word rather than a misspelt one.
        """
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        size = len(word)
        pool = [other for length in range(size - 1, size + 2) for other in self._by_length.get(length, ())]
        found = process.extract(word, pool, scorer=OSA.distance, score_cutoff=1, limit=None)
        if errors > 1:
            pool = [one for length in range(size - 2, size + 3) for one in self._by_start.get((length, word[0]), ())]
            found += process.extract(word, pool, scorer=OSA.distance, score_cutoff=errors, limit=None)
        return {other: self._common[other] for other, *_ in found}


@lru_cache(maxsize=1)
def english() -> Lexicon:
    """English words and the whole words of the models' vocabulary."""
    from spellchecker import SpellChecker

    counts: Counter[str] = Counter()
    for word, count in SpellChecker(language="en").word_frequency.dictionary.items():
        counts[folded(word)] += count
    for word in Wordpieces.default().whole_words():
        counts[word] += _WORDPIECE_WORTH  # it is a frequent word of books and of Wikipedia
    return Lexicon(counts, {word: count for word, count in counts.items() if count >= _COMMON and len(word) > 2})


@dataclass(frozen=True)
class _Replacement:
    """Known words in the place of what was typed. worth, needed: see `QuestionReading`. is_short: it was no error."""

    text: str
    worth: float
    needed: frozenset[str] = frozenset()
    is_short: bool = False


class Spelling:
    """The readings of questions to a corpus. titles: the words of its titles."""

    def __init__(self, titles: Sequence[Lexicon]) -> None:
        self._titles = titles

    def readings(self, question: str) -> list[QuestionReading]:
        """The question as it was typed, then what else may be meant, the likeliest first, `MOST_READINGS` at most.

        A question in another language than the models', or most of whose words are unknown, has no other reading. A
        word with a capital in a sentence is a name: it is read only as a title's word, with at most one other letter,
        which is not the first.
        """
        as_typed = QuestionReading(question)
        words = list(_WORD.finditer(question))
        unknown = [word for word in words if not self._known(folded(word[0]))]
        short = {
            place: [_Replacement(whole, 0.0 if needed else _SHORT, frozenset(needed), is_short=True)]
            for place, whole, needed in written_out(question)
        }
        if not (unknown or short) or 2 * len(unknown) > len(words) + 2 or foreign_language(question) is not None:
            return [as_typed]
        near = {word: self._near(word[0], self._is_name(question, word)) for word in unknown}
        in_order = sorted((near | short).items(), key=lambda one: one[0].start())
        changed = {place: found for place, found in in_order if found}
        most = _NEAREST.get(len(changed), 2)
        choices = [[*found[:most], None] for found in changed.values()]  # None: the word is kept
        readings = [
            _reading(question, dict(zip(changed, chosen, strict=True)))
            for chosen in itertools.islice(itertools.product(*choices), _MOST_COMBINED)
            if any(chosen)
        ]
        readings.sort(key=lambda reading: -reading.worth)
        return [as_typed, *readings[: MOST_READINGS - 1]]

    def _known(self, word: str) -> bool:
        lexicons = (english(), *self._titles)
        return any(one.count(word) or (word.endswith("s") and one.count(word[:-1])) for one in lexicons)

    def _near(self, typed: str, is_name: bool) -> list[_Replacement]:
        """The known words that an unknown one may be, the likeliest first."""
        word = folded(typed)
        if not _SHORTEST <= len(word) <= _LONGEST:
            return []
        errors = 2 if len(word) >= _TWO_ERRORS_FROM and not is_name else 1
        near: Counter[str] = Counter()
        for lexicon in (*self._titles, *(() if is_name else (english(),))):
            near |= Counter(lexicon.near(word, errors))  # the larger count of each
        found = [
            _Replacement(
                other,
                math.log10(count) - _ERROR * typing_cost(word, other) + _LETTER * len(word) - _CHANGE,
                frozenset() if english().count(other) else frozenset([other]),
            )
            for other, count in near.items()
            if other[0] == word[0] or not is_name
        ]
        return sorted(found, key=lambda one: (-one.worth, one.text))

    @staticmethod
    def _is_name(question: str, word: re.Match[str]) -> bool:
        """Whether a word begins with a capital where a sentence would not."""
        return word[0][0].isupper() and word.start() > 0 and not question.isupper()


def meant(readings: Sequence[QuestionReading], nearest: FindNearest) -> int:
    """Which reading is meant, by the blocks nearest to each."""
    if len(readings) == 1:
        return 0
    found = nearest([NEAR_TYPED, *(NEAR_READ for _ in readings[1:])])
    first = [(scores[0], blocks[0]) if blocks else None for blocks, scores in found]
    return chosen(readings, first, found[0][0])


def chosen(
    readings: Sequence[QuestionReading],
    nearest: Sequence[tuple[float, TitledText] | None],
    near_typed: Iterable[TitledText],
) -> int:
    """Which reading is meant: that with the highest sum of its worth and its nearest block's score.

    nearest: the nearest block of each and its score; None: there is none. near_typed: the `NEAR_TYPED` nearest blocks
    of the question as it was typed. A word is not misspelt if as many of them have it as have its replacement ("engin"
    is in one, "engine" in most). A reading's nearest block must have the `needed` words, so that no word is shown of
    documents that are not searched for this asker.
    """
    counts = Counter(word for block in near_typed for word in _words_of(block))
    best, highest = 0, -math.inf if nearest[0] is None else nearest[0][0]
    for place, (reading, found) in enumerate(zip(readings, nearest, strict=True)):
        if place == 0 or found is None or found[0] + reading.worth <= highest:
            continue
        misspelt = all(not counts[typed] or counts[typed] < counts[other] for typed, other in reading.replaced.items())
        if misspelt and _has_all(found[1], reading.needed):
            best, highest = place, found[0] + reading.worth
    return best


def _reading(question: str, replacements: Mapping[re.Match[str], _Replacement | None]) -> QuestionReading:
    pieces, end = [], 0
    made = {typed: other for typed, other in replacements.items() if other is not None}
    for typed, other in made.items():
        pieces += [question[end : typed.start()], other.text]
        end = typed.end()
    return QuestionReading(
        "".join([*pieces, question[end:]]),
        {folded(typed[0]): other.text for typed, other in made.items() if not other.is_short},
        frozenset().union(*(other.needed for other in made.values())),
        math.fsum(other.worth for other in made.values()),
    )


def _words_of(block: TitledText) -> set[str]:
    return words_of(f"{block.title} {block.text}")


def _has_all(block: TitledText, words: Iterable[str]) -> bool:
    """Whether a block has each of the words, or its singular."""
    own = _words_of(block)
    return all(word in own or word.removesuffix("s") in own for word in words)
