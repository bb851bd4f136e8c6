"""The scope of a question: collections and filters, checked against its asker's access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from webapp.access.collections import CollectionAccess
from webapp.models import AskedAnswer, Collection
from webapp.refusals import FieldError
from webapp.serving.engine import serving
from webapp.text import one_line

if TYPE_CHECKING:
    from realm_core.living.scope import Scope

MAX_VALUES: Final = 50  # of one field
MAX_VALUE_CHARACTERS: Final = 512  # as long as a title may be


@dataclass(frozen=True)
class Filters:
    """Which documents a question is looked in. Each field that is given must hold; of its values, any will do.

    titles: whole ones. languages: in lower case, as documents have them.
    since, until: the first and the last day; a document without a date is left out.
    """

    languages: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    since: date | None = None
    until: date | None = None

    def as_dict(self) -> dict[str, Any]:
        """The given filters, as JSON."""
        given = {name: value for name, value in asdict(self).items() if value}
        return {name: value.isoformat() if isinstance(value, date) else list(value) for name, value in given.items()}


def checked_filters(given: Mapping[str, Any]) -> tuple[Filters, list[FieldError]]:
    """Filters as JSON or a form has them (`Filters.as_dict`), and what is wrong with them."""
    errors: list[FieldError] = []
    languages, tags, titles = (
        _names(f"filters.{name}", given.get(name, ()), errors) for name in ("languages", "tags", "titles")
    )
    languages = tuple(dict.fromkeys(one.lower() for one in languages))
    since, until = (_day(f"filters.{name}", given.get(name), errors) for name in ("since", "until"))
    if since and until and since > until:
        errors.append(FieldError("filters.until", "The last day must not be before the first."))
    return Filters(languages, tags, titles, since, until), errors


def checked_collections(names: Sequence[str], access: CollectionAccess) -> tuple[tuple[str, ...], list[FieldError]]:
    """Names of collections, and what is wrong with them: one that is hidden is refused as one that does not exist.

    EngineUnavailable where some are named and none is loaded: it knows which there are.
    """
    errors: list[FieldError] = []
    collections = _names("collections", names, errors)
    if collections:
        with serving() as service:
            known = service.engine.collections.keys() - access.hidden
        known |= set(Collection.objects.exclude(name__in=access.hidden).values_list("name", flat=True))
        errors += [
            FieldError("collections", f"There is no collection {name!r}.") for name in collections if name not in known
        ]
    return collections, errors


def scope_of(access: CollectionAccess, collections: Sequence[str] = (), filters: Filters = Filters()) -> Scope | None:
    """The engine's scope, without hidden collections. None: everything, with equal weights."""
    named = frozenset(collections) - access.hidden if collections else None
    weights = frozenset(one for one in access.weights if named is None or one[0] in named)
    if not (collections or access.hidden or weights or filters.as_dict()):
        return None
    from realm_core.living.documents import Filter
    from realm_core.living.scope import Scope

    wanted = Filter(
        titles=frozenset(filters.titles) or None,
        tags=frozenset(filters.tags) or None,
        languages=frozenset(filters.languages) or None,
        collections=named,
        since=filters.since,
        until=filters.until,
        hidden_collections=access.hidden if named is None else frozenset(),
    )
    return Scope(wanted, weights)


def scope_again(asked: AskedAnswer, access: CollectionAccess) -> Scope | None:
    """The scope of a kept answer, limited to this access."""
    return scope_of(access, asked.collections, checked_filters(asked.filters)[0])


def _names(field: str, values: Sequence[str], errors: list[FieldError]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name for one in values if (name := one_line(one))))
    if len(names) > MAX_VALUES or any(len(name) > MAX_VALUE_CHARACTERS for name in names):
        errors.append(
            FieldError(field, f"At most {MAX_VALUES} values, each of at most {MAX_VALUE_CHARACTERS} characters.")
        )
        return ()
    return names


def _day(field: str, value: str | None, errors: list[FieldError]) -> date | None:
    if not value:
        return None
    try:
        return date.fromisoformat(value)
    except ValueError:
        errors.append(FieldError(field, "This must be a date such as 2026-01-31."))
        return None
