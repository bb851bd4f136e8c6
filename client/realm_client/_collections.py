"""Collections: what there is to look in, and what is recorded of it."""

from __future__ import annotations

import datetime as dates
from dataclasses import dataclass


@dataclass(frozen=True)
class Collection:
    """A collection of documents. weight: what the prior of its blocks is multiplied by before it is normalised.

    languages, tags, since, until: what its documents can be filtered by; None: none of them has a date.
    """

    name: str
    title: str
    description: str
    private: bool
    weight: float
    documents: int
    languages: tuple[str, ...]
    tags: tuple[str, ...]
    since: dates.date | None
    until: dates.date | None


@dataclass(frozen=True)
class CollectionSettings:
    """What is recorded of a collection. private: only admins and the groups, by their names, read it."""

    name: str
    title: str
    description: str
    private: bool
    groups: tuple[str, ...]
    weight: float
