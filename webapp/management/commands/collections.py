"""`manage.py collections …`: the collections of the deployed corpus, on the command line."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction
from typing import Any

from realm_core.errors import RealmError
from webapp.collections import service as collections
from webapp.collections.service import CollectionSettings
from webapp.management.operator import OperatorCommand
from webapp.models import Collection
from webapp.text import counted


class Command(OperatorCommand):
    """List collections, set who reads one and how much it counts, or forget what is recorded of it."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="list those that have documents, or of which something is recorded")
        change = actions.add_parser("set", help="set up a collection, new or not; what is not given stays")
        change.add_argument("name")
        change.add_argument("--title", help="what people are shown (default: the name)")
        change.add_argument("--description")
        change.add_argument("--private", action=BooleanOptionalAction, default=None, help="for admins and groups only")
        change.add_argument("--group", action="append", dest="groups", help="who reads it; may be given several times")
        change.add_argument("--more-readers", action="store_true", help="more may read a private one than now")
        change.add_argument("--weight", type=float, help="what the prior of its passages is multiplied by")
        remove = actions.add_parser("remove", help="forget what is recorded of one; its documents stay")
        remove.add_argument("name")
        remove.add_argument("--public", action="store_true", help="also of a private one, which everybody reads then")

    def handle(self, *_args: Any, action: str, **options: Any) -> None:
        try:
            if action == "list":
                self._list()
            elif action == "set":
                self._set(options)
            else:
                collections.remove(options["name"], by=None, public=options["public"])
        except Collection.DoesNotExist:
            raise RealmError(f"Nothing is recorded of {options['name']!r}.") from None

    def _set(self, options: dict[str, Any]) -> None:
        groups = None if options["groups"] is None else tuple(filter(None, options["groups"]))  # `--group ""`: none
        about = {name: options[name] for name in ("title", "description", "private", "weight")}
        record, _ = collections.save(
            options["name"],
            CollectionSettings(groups=groups, **about),
            by=None,
            more_readers=options["more_readers"],
        )
        self.stdout.write(f"{record.name}  {_described(record)}")

    def _list(self) -> None:
        for one in collections.listed():
            self.stdout.write(
                f"{one.record.name}  {_described(one.record)}, {counted(one.facts.documents, 'document')}"
            )


def _described(record: Collection) -> str:
    """Title, readers and weight."""
    readers = ", ".join(["admins", *(group.name for group in record.groups.all())]) if record.private else "everybody"
    return f"{record.title + ': ' if record.title else ''}{readers}, weight {record.weight:g}"
