"""Misspelt questions: readings in which each unknown word is one of the known words nearest to it.

Known are English words with how often they occur (pyspellchecker's list, counted in film subtitles), the whole words
of the models' vocabulary, and the words of a corpus's titles. The retriever decides which reading is meant (`meant`):
the one whose nearest block scores highest, or the question as it was typed unless another scores higher by a margin.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from realm_core.text.language import foreign_language
from realm_core.text.wordpieces import Wordpieces

MOST_READINGS: Final = 16  # of a question, itself included; each is one short sequence for the query embedder
NEAR_TYPED: Final = 20  # blocks nearest to the question as it was typed, whose words count as right
NEAR_READ: Final = 3  # blocks nearest to another reading; the first may be a dictionary's, which counts for less
_MARGIN: Final = 1.0  # of the nearest block's score, by which a reading must be better than the question as typed
_WORD: Final = re.compile(r"[^\W\d_]+")
_SHORTEST, _LONGEST = 4, 32  # characters of a word that is looked up; shorter ones have too many neighbours
_TWO_ERRORS_FROM: Final = 7  # characters; shorter words may have one error
_NEAREST: Final = 3  # known words that a word is read as, the most frequent of those with the fewest errors
_COMMON: Final = 300  # occurrences of an English word from which on another word may be read as it
_TITLE_WORTH: Final = 30  # occurrences that one title counts as


def folded(text: str) -> str:
    """In lower case and without accents."""
    if text.isascii():
        return text.lower()
    return "".join(itertools.filterfalse(unicodedata.combining, unicodedata.normalize("NFKD", text.lower())))


def folded_places(text: str) -> tuple[str, list[int]]:
    """(folded, where each of its characters stands in `text`, and the end of `text`). They may differ in length.

    “½” becomes three characters, an accent that is a character of its own none.
    """
    if text.isascii():
        return text.lower(), list(range(len(text) + 1))
    lower, at = text.lower(), 0  # of the whole: a sigma's lower case depends on what is around it
    characters: list[str] = []
    places: list[int] = []
    for place, one in enumerate(text):
        size = len(one.lower())
        kept = folded(lower[at : at + size])
        characters.append(kept)
        places += [place] * len(kept)
        at += size
    return "".join(characters), [*places, len(text)]


def words_of(text: str) -> set[str]:
    """Its words of letters, folded."""
    return set(_WORD.findall(folded(text)))


@dataclass(frozen=True)
class QuestionReading:
    """A question as it may be meant. replaced: words that were typed.

    borrowed: those in their places that only titles of the corpus have.
    """

    text: str
    replaced: tuple[str, ...] = ()
    borrowed: tuple[str, ...] = ()


class TitledText(Protocol):
    """A block."""

    @property
    def title(self) -> str: ...

    @property
    def text(self) -> str: ...


# How many blocks are wanted of each reading → those nearest to it, with their scores, the nearest first.
FindNearest = Callable[[Sequence[int]], Sequence[tuple[Sequence[TitledText], Sequence[float]]]]


class Lexicon:
    """Words, in lower case and without accents, and how often each occurs. common: those that others are read as."""

    def __init__(self, counts: Mapping[str, int], common: Iterable[str]) -> None:
        self._counts = counts
        self._by_length: defaultdict[int, list[str]] = defaultdict(list)
        for word in common:
            self._by_length[len(word)].append(word)

    @classmethod
    def of_titles(cls, titles: Iterable[str]) -> Lexicon:
        counts = Counter(word for title in titles for word in _WORD.findall(folded(title)))
        return cls({word: count * _TITLE_WORTH for word, count in counts.items()}, [w for w in counts if len(w) > 2])

    def count(self, word: str) -> int:
        """How often a word occurs; 0 for an unknown one."""
        return self._counts.get(word, 0)

    def near(self, word: str, errors: int) -> list[tuple[int, int, str]]:
        """(errors, −occurrences, word) of every common word with at most as many errors.

        Errors are characters left out, added, replaced, or exchanged with a neighbour (optimal string alignment).
        """
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        lengths = range(len(word) - errors, len(word) + errors + 1)
        pool = [other for length in lengths for other in self._by_length.get(length, ())]
        found = process.extract(word, pool, scorer=OSA.distance, score_cutoff=errors, limit=None)
        return [(int(distance), -self.count(other), other) for other, distance, _ in found]


@lru_cache(maxsize=1)
def english() -> Lexicon:
    """English words and the whole words of the models' vocabulary."""
    from spellchecker import SpellChecker

    counts: Counter[str] = Counter()
    for word, count in SpellChecker(language="en").word_frequency.dictionary.items():
        counts[folded(word)] += count
    for word in Wordpieces.default().whole_words():
        counts[word] += _COMMON  # it is a frequent word of books and of Wikipedia
    return Lexicon(counts, [word for word, count in counts.items() if count >= _COMMON and len(word) > 2])


class Spelling:
    """The readings of questions to a corpus. titles: the words of its titles."""

    def __init__(self, titles: Sequence[Lexicon]) -> None:
        self._titles = titles

    def readings(self, question: str) -> list[QuestionReading]:
        """The question as it was typed, then what else may be meant, `MOST_READINGS` at most.

        A question in another language than the models', or most of whose words are unknown, has no other reading. A
        word with a capital in a sentence is a name: it is read only as a title's word, with at most one other letter,
        which is not the first.
        """
        as_typed = QuestionReading(question)
        words = list(_WORD.finditer(question))
        unknown = [word for word in words if not self._known(folded(word[0]))]
        if not unknown or 2 * len(unknown) > len(words) + 2 or foreign_language(question) is not None:
            return [as_typed]
        changed = {word: near for word in unknown if (near := self._near(word[0], self._is_name(question, word)))}
        if not changed:
            return [as_typed]
        found = {question: as_typed}
        replaced = tuple(folded(word[0]) for word in changed)
        for chosen in itertools.islice(itertools.product(*changed.values()), MOST_READINGS - 1):
            pieces, end = [], 0
            for word, other in zip(changed, chosen, strict=True):
                pieces += [question[end : word.start()], other]
                end = word.end()
            text = "".join([*pieces, question[end:]])
            borrowed = tuple(other for other in chosen if not english().count(other))
            found.setdefault(text, QuestionReading(text, replaced, borrowed))
        return list(found.values())

    def _known(self, word: str) -> bool:
        lexicons = (english(), *self._titles)
        return any(one.count(word) or (word.endswith("s") and one.count(word[:-1])) for one in lexicons)

    def _near(self, typed: str, is_name: bool) -> list[str]:
        """The known words that an unknown one is read as, the most likely first."""
        word = folded(typed)
        if not _SHORTEST <= len(word) <= _LONGEST:
            return []
        errors = 2 if len(word) >= _TWO_ERRORS_FROM and not is_name else 1
        # Two errors, the first letter among them, make another word rather than a misspelt one; a name stays a name.
        near = [
            one
            for lexicon in (*self._titles, *(() if is_name else (english(),)))
            for one in lexicon.near(word, errors)
            if one[2][0] == word[0] or (one[0] == 1 and not is_name)
        ]
        fewest = min((distance for distance, *_ in near), default=0)
        return list(dict.fromkeys(other for distance, _, other in sorted(near) if distance == fewest))[:_NEAREST]

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
    """Which reading is meant. nearest: the nearest block of each and its score; None: there is none.

    near_typed: the `NEAR_TYPED` nearest blocks of the question as it was typed. A word that one of them has is not
    misspelt. A word that only titles have is accepted if the reading's block has it, too. So no word is shown of
    documents that are not searched for this asker.
    """
    right = set().union(*map(_words_of, near_typed))
    as_typed = nearest[0]
    best, highest = 0, -math.inf if as_typed is None else as_typed[0] + _MARGIN
    for place, (reading, found) in enumerate(zip(readings, nearest, strict=True)):
        if place == 0 or found is None or found[0] <= highest or not right.isdisjoint(reading.replaced):
            continue
        if not reading.borrowed or set(reading.borrowed) <= _words_of(found[1]):
            best, highest = place, found[0]
    return best


def _words_of(block: TitledText) -> set[str]:
    return words_of(f"{block.title} {block.text}")
