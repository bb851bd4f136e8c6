"""Tokens of an account, made, listed and revoked on the account page and the command line; and its password."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import timedelta
from functools import cache
from typing import Final

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import CommonPasswordValidator
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from realm_core.errors import RealmError
from webapp.access.roles import grantable_scopes
from webapp.models import ApiToken, AuditEntry
from webapp.models.token import SCOPES
from webapp.storage.places import first_password_path
from webapp.text import one_line

MOST_TOKENS: Final = 50  # valid ones per person; each client needs one
LONGEST_NAME: Final = 100
MOST_DAYS: Final = 3650

log = logging.getLogger(__name__)


def valid_tokens(user: User | None = None) -> QuerySet[ApiToken]:
    """The valid tokens, of one person or of all."""
    of_whom = Q() if user is None else Q(user=user)
    unexpired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    return ApiToken.objects.filter(of_whom, unexpired, revoked_at=None).select_related("user")


def make_token(
    user: User, name: str, scopes: Collection[str], *, days: int | None = None, by: User | None
) -> tuple[ApiToken, str]:
    """(record, token); the token is not stored, so it can be shown only now.

    name:   its purpose; empty: its scopes. days:   how long it is valid; None: until it is revoked. by:     who makes
    it; None: the command line. RealmError if the scopes are unknown, not allowed for this person, or none; and for too
    many tokens, days or characters.
    """
    wanted = [scope for scope in SCOPES if scope in scopes]
    if not wanted or len(wanted) != len(set(scopes)):
        raise RealmError(f"Choose at least one scope for the token: {', '.join(SCOPES)}.")
    if refused := [scope for scope in wanted if scope not in grantable_scopes(user)]:
        raise RealmError(f"{user.get_username()} is not an admin; a token of the scope {refused[0]} would be useless.")
    if days is not None and not 1 <= days <= MOST_DAYS:
        raise RealmError(f"A token is valid for 1 to {MOST_DAYS} days, not {days}.")
    name = one_line(name) or ", ".join(wanted)
    if len(name) > LONGEST_NAME:
        raise RealmError(f"A token's name may have at most {LONGEST_NAME} characters; this one has {len(name)}.")
    expires_at = None if days is None else timezone.now() + timedelta(days=days)
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)  # serialises the count of concurrent requests
        if valid_tokens(user).count() >= MOST_TOKENS:
            raise RealmError(f"{user.get_username()} has {MOST_TOKENS} tokens; revoke one first.")
        record, token = ApiToken.issue(user, name, wanted, expires_at=expires_at)
        AuditEntry.record("token.create", record, by=by, user=user.get_username(), scopes=wanted)
    return record, token


def revoke(token: ApiToken, *, by: User | None) -> bool:
    """Make a token invalid; False if it was revoked already."""
    with transaction.atomic():
        revoked = ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())
        if revoked:
            AuditEntry.record("token.revoke", token, by=by, user=token.user.get_username())
    return bool(revoked)


def is_too_common(user: User, password: str) -> bool:
    """Whether a password is its owner's name or one of the 20,000 commonest, ignoring case."""
    plain = password.lower().strip()
    return plain == user.get_username().lower() or plain in _commonest().passwords


@cache
def _commonest() -> CommonPasswordValidator:
    """Django's list; loading it is slow, so it is loaded once."""
    return CommonPasswordValidator()


def forget_first_password() -> None:
    """Remove the file with the first administrator's password, if there is one."""
    path = first_password_path()
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s holds a password and cannot be removed: %s.", path, error.strerror)
