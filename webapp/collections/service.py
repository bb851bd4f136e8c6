"""Which collections there are: names on documents of the corpus that answers, and what is recorded of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from django.contrib.auth.models import Group, User
from django.db import transaction

from realm_core.errors import EngineUnavailable, unfit_character
from webapp.models import AuditEntry, Collection
from webapp.models.collection import LEAST_WEIGHT, LONGEST_DESCRIPTION, LONGEST_NAME, LONGEST_TITLE, MOST_WEIGHT
from webapp.refusals import FieldError, InvalidRequest, StateConflict
from webapp.serving.living import active, current_view
from webapp.text import one_line

if TYPE_CHECKING:
    from realm_core.living.collections import CollectionFacts
    from realm_core.living.view import CorpusView


@dataclass(frozen=True)
class ListedCollection:
    """A collection. record: where nothing is recorded, one that is not stored. facts: of its documents."""

    record: Collection
    facts: CollectionFacts


@dataclass(frozen=True)
class CollectionSettings:
    """New settings of a collection; groups by name. None: unchanged; a new one is public and has weight 1."""

    title: str | None = None
    description: str | None = None
    private: bool | None = None
    groups: tuple[str, ...] | None = None
    weight: float | None = None


@dataclass(frozen=True)
class Readers:
    """Who reads a collection. groups: those that do besides admins; None: everybody who may ask."""

    groups: frozenset[str] | None = None

    @classmethod
    def of(cls, record: Collection) -> Readers:
        """Who reads the collection with this row."""
        return cls(frozenset(group.name for group in record.groups.all()) if record.private else None)

    def exceed(self, others: Readers) -> bool:
        """Whether there may be some who are not among the others."""
        return others.groups is not None and (self.groups is None or not self.groups <= others.groups)

    def __str__(self) -> str:
        return "everybody who may ask" if self.groups is None else ", ".join(["admins", *sorted(self.groups)])


@dataclass(frozen=True)
class KnownCollections:
    """The collections that there are. own: the name of the corpus's own. readers: of each, by name."""

    own: str
    readers: Mapping[str, Readers]

    @property
    def some_private(self) -> bool:
        """Whether there is one that not everybody reads."""
        return any(one.groups is not None for one in self.readers.values())

    def called(self, name: str) -> str:
        """The name of the one that is meant: case and blanks make no other; a name that none has stays."""
        if name in self.readers:
            return name
        alike = [one for one in self.readers if _folded(one) == _folded(name)]
        return alike[0] if len(alike) == 1 else name

    def readers_of(self, name: str) -> Readers:
        """Who reads a collection: of a new one, everybody."""
        return self.readers.get(name, Readers())


class MoreReaders(StateConflict):
    """What is in a private collection would be read by more, and this was not confirmed."""


class WouldBePublic(StateConflict):
    """A private collection is to be removed without confirmation that everybody may then read it."""


def listed(hidden: Iterable[str] = ()) -> list[ListedCollection]:
    """The collections that have documents or a record, by name, without those that are hidden.

    EngineUnavailable where the corpus cannot be read.
    """
    from realm_core.living.collections import CollectionFacts

    facts = current_view().collections
    records = {one.name: one for one in Collection.objects.prefetch_related("groups")}
    names = sorted((facts.keys() | records.keys()) - {"", *hidden})
    nothing = CollectionFacts(0, frozenset(), frozenset(), None, None)
    return [ListedCollection(records.get(name) or Collection(name=name), facts.get(name, nothing)) for name in names]


def known(view: CorpusView | None, own: str) -> KnownCollections:
    """The collections that documents of a state are in, or of which something is recorded, and the corpus's own."""
    readers = dict.fromkeys({own, *(view.collections if view else ())} - {""}, Readers())
    readers |= {one.name: Readers.of(one) for one in Collection.objects.prefetch_related("groups")}
    return KnownCollections(own, dict(sorted(readers.items())))


def known_now() -> KnownCollections:
    """Those of the corpus that answers; where it cannot be read, only those of which something is recorded."""
    try:
        return known(current_view(), active().index.corpus.name)
    except EngineUnavailable:
        return known(None, "")


def recorded(name: str) -> Collection | None:
    """The row of a collection; None: it has none, so it is public and has weight 1."""
    return Collection.objects.filter(name=one_line(name)).first()


def save(
    name: str, settings: CollectionSettings, *, by: User | None, more_readers: bool = False
) -> tuple[Collection, bool]:
    """Keep what is to hold of a collection from now on, and whether it is new; the next question goes by it.

    by: None for the command line. more_readers: some may read a private one then who may not now; otherwise
    MoreReaders. InvalidRequest names what is wrong.
    """
    name = one_line(name)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise InvalidRequest(FieldError("name", f"A name has 1 to {LONGEST_NAME} characters."))
    groups = None if settings.groups is None else _groups(settings.groups)
    if not Collection.objects.filter(name=name).exists() and (named := known_now().called(name)) != name:
        raise InvalidRequest(FieldError("name", f"There is a collection “{named}”: case and blanks make no other."))
    with transaction.atomic():
        record, is_new = Collection.objects.select_for_update().get_or_create(name=name)
        before = Readers.of(record)
        for field, value in asdict(settings).items():
            if value is not None and field != "groups":
                setattr(record, field, value)
        record.title = one_line(record.title)
        _check(record)
        if groups and not record.private:
            raise InvalidRequest(
                FieldError("groups", "Groups read a private collection: make it private, or name none.")
            )
        record.save()
        if groups is not None:
            record.groups.set(groups)
        if (then := Readers.of(record)).exceed(before) and not more_readers:
            raise MoreReaders(
                f"“{record.name}” is read by {before}, and would be by {then}: confirm that (more_readers)."
            )
        AuditEntry.record("collection.edit", record.name, by=by, **_audited_settings(record))
    return record, is_new


def remove(name: str, *, by: User | None, public: bool = False) -> None:
    """Forget what is recorded of a collection: its documents keep the name, and everybody who may ask reads them.

    public: so may a private one; otherwise WouldBePublic. by: as for `save`. Collection.DoesNotExist if nothing is
    recorded of it.
    """
    with transaction.atomic():
        record = Collection.objects.select_for_update().get(name=one_line(name))
        if record.private and not public:
            raise WouldBePublic(
                f"“{record.name}” is private. If it is removed, everybody who may ask reads its documents and the "
                "answers from them: confirm that."
            )
        AuditEntry.record("collection.remove", record.name, by=by, **_audited_settings(record))
        record.delete()


def _folded(name: str) -> str:
    return "".join(name.split()).casefold()


def _groups(names: Iterable[str]) -> list[Group]:
    wanted = set(names)
    found = list(Group.objects.filter(name__in={name for name in wanted if not unfit_character(name)}))
    if unknown := sorted(wanted - {group.name for group in found}):
        raise InvalidRequest(FieldError("groups", f"There is no group {unknown[0]!r}."))
    return found


def _check(record: Collection) -> None:
    wrong = []
    for field, most in (("title", LONGEST_TITLE), ("description", LONGEST_DESCRIPTION)):
        if len(text := getattr(record, field)) > most:
            wrong.append(FieldError(field, f"This may have at most {most:,} characters; it has {len(text):,}."))
        if found := unfit_character(text):  # PostgreSQL refuses some characters
            wrong.append(FieldError(field, f"This must be a text without {found!r}."))
    if not LEAST_WEIGHT <= record.weight <= MOST_WEIGHT:  # nor NaN
        wrong.append(FieldError("weight", f"This must be a number from {LEAST_WEIGHT} to {MOST_WEIGHT:,.0f}."))
    if wrong:
        raise InvalidRequest(*wrong)


def _audited_settings(record: Collection) -> dict[str, object]:
    """The collection's settings, for the audit trail."""
    return {
        "title": record.title,
        "private": record.private,
        "groups": sorted(group.name for group in record.groups.all()),
        "weight": record.weight,
    }
