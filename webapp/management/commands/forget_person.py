"""`manage.py forget_person NAME`: see webapp/accounts/forgetting.py."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User

from realm_core.errors import RealmError
from webapp.accounts import forgetting
from webapp.management.operator import OperatorCommand


class Command(OperatorCommand):
    """Remove an account with all that its person asked and said; without --yes, say what that is."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the account's name")
        parser.add_argument("--yes", action="store_true", help="remove it; this cannot be undone")

    def handle(self, *_args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            raise RealmError(f"There is no account {options['name']}.")
        found = forgetting.forget(user) if options["yes"] else forgetting.kept(user)
        for what, number in found.removed.items():
            self.stdout.write(f"{number:>8,}  {what}")
        self.stdout.write(f"{found.audit:>8,}  other entries of the audit trail, which name the account by its number")
        if options["yes"]:
            self.stdout.write("Removed, with the account. Backups and logs still have it; answers' links end.")
        else:
            self.stdout.write("Nothing is removed yet; --yes removes it, and the account.")
