"""Which collections there are: names on documents of the corpus that answers, and what is recorded of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib.auth.models import Group, User
from django.db import transaction

from webapp.documents.viewing import current_view
from webapp.models import AuditEntry, Collection

if TYPE_CHECKING:
    from realm_core.living.collections import CollectionFacts


@dataclass(frozen=True)
class ListedCollection:
    """A collection. facts: of its documents; None: it has none. record: None: public, with weight 1."""

    name: str
    facts: CollectionFacts | None
    record: Collection | None

    @property
    def title(self) -> str:
        """What people are shown."""
        return self.record.title or self.name if self.record else self.name

    @property
    def documents(self) -> int:
        """How many documents it has."""
        return self.facts.documents if self.facts else 0


def listed(hidden: Iterable[str] = ()) -> list[ListedCollection]:
    """The collections that have documents or a record, by name, without those that are hidden.

    EngineUnavailable where the corpus cannot be read.
    """
    facts = current_view()[1].collections
    records = {one.name: one for one in Collection.objects.prefetch_related("groups")}
    names = (facts.keys() | records.keys()) - {"", *hidden}
    return [ListedCollection(name, facts.get(name), records.get(name)) for name in sorted(names)]


def save(record: Collection, groups: Iterable[Group], *, by: User) -> None:
    """Keep what is to hold of a collection from now on; the next question goes by it."""
    with transaction.atomic():
        record.save()
        record.groups.set(groups)
        AuditEntry.record(
            "collection.edit",
            record.name,
            by=by,
            title=record.title,
            private=record.private,
            groups=sorted(group.name for group in groups),
            weight=record.weight,
        )
