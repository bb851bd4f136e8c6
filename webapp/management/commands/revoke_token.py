"""`manage.py revoke_token realm_AbCdEf`: revoke a token."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any, Final

from realm_core.errors import RealmError
from webapp.accounts.service import revoke, valid_tokens
from webapp.management.operator import OperatorCommand

_SHOWN: Final = 12  # characters of a token that its row has


class Command(OperatorCommand):
    """Revoke a token of the REST API; without a token, list those that are valid."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("token", nargs="?", help=f"its first {_SHOWN} characters, or the whole token")

    def handle(self, *_args: Any, **options: Any) -> None:
        tokens = valid_tokens()
        if options["token"] is None:
            for one in tokens:
                used = f"last used {one.last_used_at:%d %B %Y}" if one.last_used_at else "never used"
                used += "" if one.user.is_active else "; refused while the account is not active"
                self.stdout.write(f"{one.start}  {one.user.username}  {one.name} ({', '.join(one.scopes)}), {used}")
            return
        start = options["token"][:_SHOWN]
        # Two tokens with the same start are improbable (36 random bits); both are revoked then, which is the safe
        # choice.
        found = list(tokens.filter(start=start)) if len(start) == _SHOWN else []
        if not found:
            raise RealmError(f"No valid token begins with {start}; without a token, this command lists them.")
        for one in found:
            revoke(one, by=None)
            self.stdout.write(f"{one} of {one.user.username} is revoked.")
