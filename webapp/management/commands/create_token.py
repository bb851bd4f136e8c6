"""`manage.py create_token NAME --scope operate`: a token for the REST API, printed once."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from webapp.models import ApiToken, AuditEntry
from webapp.models.token import SCOPES


class Command(BaseCommand):
    """Make a token. Only the token goes to the standard output, so that it can be sent on into a file."""

    help = "Make a token for the REST API. It is shown once and kept nowhere."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="whose token it is; it may do what this person may")
        parser.add_argument(
            "--scope", action="append", choices=SCOPES, required=True, help="what it is for; may be repeated"
        )
        parser.add_argument("--name", default="", help="what it is called in lists (default: its scopes)")
        parser.add_argument("--days", type=int, help="how long it is valid (default: until it is revoked)")

    def handle(self, *_args: Any, **options: Any) -> None:
        scopes: list[str] = sorted(set(options["scope"]))
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active user {options['user']}.")
        if "operate" in scopes and not user.is_staff:
            raise CommandError(f"{user.username} is not staff; a token of the scope operate would be useless.")
        if options["days"] is not None and not 1 <= options["days"] <= 3650:
            raise CommandError(f"--days must be from 1 to 3650, not {options['days']}.")
        expires_at = None if options["days"] is None else timezone.now() + timedelta(days=options["days"])
        with transaction.atomic():
            record, token = ApiToken.issue(user, options["name"] or ", ".join(scopes), scopes, expires_at=expires_at)
            AuditEntry.record("token.create", record, by=None, user=user.username, scopes=scopes)
        until = f"valid until {expires_at:%d %B %Y}" if expires_at else "valid until it is revoked"
        self.stderr.write(f"A token of {user.username} for {' and '.join(scopes)}, {until}; it is not shown again:")
        self.stdout.write(token)
