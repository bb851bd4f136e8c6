"""Which collections a caller may read, and how much each counts. Every door to documents and answers asks here."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser, User

from webapp.models import Collection


@dataclass(frozen=True)
class CollectionAccess:
    """hidden: the collections that the caller may not read. weights: of the others whose weight is not 1."""

    hidden: frozenset[str] = frozenset()
    weights: frozenset[tuple[str, float]] = frozenset()


def access_of(user: User | AnonymousUser | None) -> CollectionAccess:
    """The collections that a caller may read now: for admins and the command line (None), all of them."""
    rows = list(Collection.objects.values_list("name", "private", "weight"))
    private = {name for name, is_private, _ in rows if is_private}
    hidden = private - _readable(user, private) if private else frozenset()
    return CollectionAccess(
        frozenset(hidden), frozenset((name, weight) for name, _, weight in rows if weight != 1.0 and name not in hidden)
    )


def _readable(user: User | AnonymousUser | None, private: set[str]) -> set[str]:
    if user is None:
        return private
    if not isinstance(user, User) or not user.is_active:
        return set()
    if user.is_staff:
        return private
    return set(Collection.objects.filter(private=True, groups__user=user).values_list("name", flat=True))
