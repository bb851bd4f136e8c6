"""The conditions of where a question was looked in, in words, and how many documents each fits by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from webapp.access.collections import CollectionAccess
from webapp.asking.scope import Filters, checked_filters, scope_of
from webapp.models import AskedAnswer
from webapp.serving.engine import EngineUnavailable
from webapp.serving.living import current_view
from webapp.text import language_name


@dataclass(frozen=True)
class Condition:
    """name: what is compared. values: of which any will do. documents: how many fit; None: not counted."""

    name: str
    values: tuple[str, ...]
    documents: int | None = None

    @property
    def excludes_all(self) -> bool:
        return self.documents == 0


def conditions(asked: AskedAnswer) -> list[Condition]:
    """The conditions of a kept answer; none: it was looked for everywhere."""
    return [condition for condition, _ in _conditions(asked)]


def counted_conditions(asked: AskedAnswer, access: CollectionAccess) -> list[Condition]:
    """The conditions with the number of documents of today's corpus that fit each, of those that a caller may read."""
    try:
        view = current_view()
    except EngineUnavailable:
        return conditions(asked)
    found = []
    for condition, alone in _conditions(asked):
        scope = scope_of(access, **alone)
        assert scope is not None
        found.append(replace(condition, documents=len(view.found(wanted=scope.wanted))))
    return found


def _conditions(asked: AskedAnswer) -> list[tuple[Condition, dict[str, Any]]]:
    filters, _ = checked_filters(asked.filters)
    found: list[tuple[Condition, dict[str, Any]]] = []
    if asked.collections:
        found.append((Condition("Collection", tuple(asked.collections)), {"collections": asked.collections}))
    if filters.languages:
        names = tuple(map(language_name, filters.languages))
        found.append((Condition("Language", names), {"filters": Filters(languages=filters.languages)}))
    if filters.tags:
        found.append((Condition("Tag", filters.tags), {"filters": Filters(tags=filters.tags)}))
    if filters.titles:
        found.append((Condition("Title", filters.titles), {"filters": Filters(titles=filters.titles)}))
    if filters.since or filters.until:
        bounds = (("from", filters.since), ("until", filters.until))
        days = " ".join(f"{word} {day:%-d %B %Y}" for word, day in bounds if day)
        found.append((Condition("Dated", (days,)), {"filters": Filters(since=filters.since, until=filters.until)}))
    return found
