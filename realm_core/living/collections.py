"""The collections of a corpus state: their documents, and the languages, tags and dates of these."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class CollectionFacts:
    """Living documents of a collection, and what of them can be filtered by. since, until: the range of their dates."""

    documents: int
    languages: frozenset[str]
    tags: frozenset[str]
    since: datetime.date | None
    until: datetime.date | None

    def joined(self, other: CollectionFacts) -> CollectionFacts:
        since = [one.since for one in (self, other) if one.since is not None]
        until = [one.until for one in (self, other) if one.until is not None]
        return CollectionFacts(
            self.documents + other.documents,
            self.languages | other.languages,
            self.tags | other.tags,
            min(since, default=None),
            max(until, default=None),
        )


def collections_of(table: pa.Table) -> dict[str, CollectionFacts]:
    """The collections of the documents in a table of `DOCUMENTS_SCHEMA`, by name."""
    names = table.column("collection")
    return {name: _facts(table.filter(pc.equal(names, name))) for name in pc.unique(names).to_pylist()}


def joined_collections(parts: Iterable[dict[str, CollectionFacts]]) -> dict[str, CollectionFacts]:
    found: dict[str, CollectionFacts] = {}
    for part in parts:
        for name, facts in part.items():
            found[name] = found[name].joined(facts) if name in found else facts
    return found


def _facts(table: pa.Table) -> CollectionFacts:
    dates = pc.min_max(table.column("date")).as_py()
    languages = pc.unique(table.column("language")).to_pylist()
    tags = pc.unique(pc.list_flatten(table.column("tags"))).to_pylist()
    return CollectionFacts(
        len(table), frozenset(filter(None, languages)), frozenset(filter(None, tags)), dates["min"], dates["max"]
    )
