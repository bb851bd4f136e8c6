"""`manage.py create_token NAME --scope operate`: a token for the REST API, printed once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User

from realm_core.errors import RealmError
from webapp.accounts.service import make_token
from webapp.management.operator import OperatorCommand
from webapp.models.token import SCOPES


class Command(OperatorCommand):
    """Make a token for the REST API. It is shown once and not stored."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="the token's owner, whose rights limit it")
        parser.add_argument(
            "--scope", action="append", choices=SCOPES, required=True, help="what it may do; may be repeated"
        )
        parser.add_argument("--name", default="", help="its name in lists (default: its scopes)")
        parser.add_argument("--days", type=int, help="how long it is valid (default: until it is revoked)")

    def handle(self, *_args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise RealmError(f"There is no active user {options['user']}.")
        record, token = make_token(user, options["name"], set(options["scope"]), days=options["days"], by=None)
        until = f"valid until {record.expires_at:%d %B %Y}" if record.expires_at else "valid until it is revoked"
        self.stderr.write(
            f"A token of {user.username} for {' and '.join(record.scopes)}, {until}; it is not shown again:"
        )
        self.stdout.write(token)  # alone, so that it can be redirected into a file
