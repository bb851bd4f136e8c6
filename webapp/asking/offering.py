"""The choices of the question box: collections, languages, tags and dates."""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.contrib.auth.models import AnonymousUser, User

from webapp.access.collections import access_of
from webapp.models import Collection
from webapp.serving.engine import EngineUnavailable, holder, serving
from webapp.text import language_name

_MOST_TAGS = 200  # that are suggested
_MOST_ALONE = 5  # collections to ask alone


@dataclass(frozen=True)
class Choice:
    """A checkbox."""

    value: str
    label: str
    chosen: bool


@dataclass(frozen=True)
class Offer:
    """Collections, languages and tags to choose from. filters: those in use. open: whether any choice is in use.

    alone: the collections that were searched, smallest first, without the largest. The page offers to search one of
    them alone, because the many blocks of a larger one may take the places of its blocks.
    """

    collections: tuple[Choice, ...]
    languages: tuple[Choice, ...]
    tags: tuple[str, ...]
    dated: bool
    filters: Mapping[str, Any]
    open: bool
    alone: tuple[Choice, ...]


def offered(
    user: User | AnonymousUser | None,
    collections: Sequence[str] = (),
    filters: Mapping[str, Any] = MappingProxyType({}),
) -> Offer | None:
    """The choices for a caller, with those that are chosen.

    None where there is nothing to choose: one collection, without tags and dates; or no engine is loaded.
    """
    if holder().standing().state != "ready":  # begins nothing: the box is there while a model is being loaded
        return None
    try:
        with serving() as service:
            found = service.engine.collections
    except EngineUnavailable:
        return None
    hidden = access_of(user).hidden
    facts = {name: one for name, one in found.items() if name and name not in hidden}
    tags = frozenset[str]().union(*(one.tags for one in facts.values()))
    languages = frozenset[str]().union(*(one.languages for one in facts.values()))
    dated = any(one.since for one in facts.values())
    if len(facts) < 2 and not tags and not dated:
        return None
    titles = dict(Collection.objects.filter(name__in=facts).exclude(title="").values_list("name", "title"))
    choices = {name: Choice(name, titles.get(name, name), name in collections) for name in sorted(facts)}
    looked_in = [name for name in choices if name in collections or not collections]
    by_size = sorted(looked_in, key=lambda name: facts[name].documents)
    return Offer(
        tuple(choices.values()),
        _languages(languages, filters.get("languages", ())) if len(languages) > 1 else (),
        tuple(sorted(tags)[:_MOST_TAGS]),
        dated,
        filters,
        bool(collections or any(filters.values())),
        tuple(choices[name] for name in by_size[:-1][:_MOST_ALONE]),
    )


def _languages(codes: Names[str], chosen: Names[str]) -> tuple[Choice, ...]:
    choices = (Choice(code, language_name(code), code in chosen) for code in codes)
    return tuple(sorted(choices, key=lambda one: one.label))
