"""One entry of The World Factbook and the names of its country."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from realm_core.corpus.factbook.fields import dated, fact, without_brackets
from realm_core.corpus.factbook.names import NAMES, slug_of, with_article


@dataclass(frozen=True)
class Country:
    """title: its usual name. name: the same within a sentence, "the Netherlands". others: further names in use."""

    title: str
    name: str
    others: tuple[str, ...]
    slug: str
    entry: dict[str, Any]

    @classmethod
    def of(cls, code: str, entry: dict[str, Any]) -> Country:
        """code: the entry's file name, the two letters that the source gives each country."""
        short = _text(entry, "Government", "Country name", "conventional short form")
        title, *others = NAMES.get(code) or (without_brackets(fact(short)),)
        return cls(title, with_article(title), tuple(others), slug_of(code, title), entry)

    def raw(self, *path: str) -> str:
        """A field as the source has it; empty where it is missing."""
        return _text(self.entry, *path)

    def fact(self, *path: str) -> str:
        """A field's value, cleaned; empty where there is none."""
        return fact(self.raw(*path))

    def area(self) -> str:
        """Square kilometres, as written; empty where it is unknown. The Vatican's is 0."""
        area = re.match(r"[\d,.]+(?= sq km)", self.fact("Geography", "Area", "total ").split(":")[-1].strip())
        return area.group() if area else ""

    def population(self) -> tuple[str, str]:
        """(how many people, in which year), as written; empty where it is unknown."""
        total = self.fact("People and Society", "Population", "total")
        return dated(total or self.fact("People and Society", "Population"))

    def __str__(self) -> str:
        return self.name


def _text(entry: Any, *path: str) -> str:
    for key in path:
        entry = entry.get(key) if isinstance(entry, dict) else None
    value = entry.get("text") if isinstance(entry, dict) else entry
    return value if isinstance(value, str) else ""
