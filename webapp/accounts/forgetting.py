"""What is kept of a person, and its removal: for somebody who asks to be forgotten, and of logins after a while.

Deleting an account alone would keep its questions as if they had been asked without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib.admin.models import LogEntry
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.utils import timezone

from realm_core.errors import RealmError
from webapp.models import AskedAnswer, AuditEntry, Feedback, IdempotencyKey
from webapp.models.answer import ASKER_ENTRY
from webapp.storage.deleted_rows import empty_log

_LOGINS: Final = (AccessAttempt, AccessFailureLog, AccessLog)
_ACCOUNT_ACTIONS: Final = ("login", "logout")
LOGINS_KEPT: Final = timedelta(days=90)  # with addresses and browsers: for whoever looks into a stolen password


@dataclass(frozen=True)
class PersonalRecords:
    """What is kept of a person, by name; `audit`: entries that stay, with the account's number instead of its name."""

    removed: dict[str, int]
    audit: int


def kept(user: User) -> PersonalRecords:
    """Count what is stored of a person."""
    removed = {what: records.count() for what, records in _records(user).items()}
    return PersonalRecords(removed | {"sessions": len(_sessions(user))}, _audit(user).count())


def forget(user: User) -> PersonalRecords:
    """Remove it, with the account. RealmError for the only superuser, without whom nobody could manage people."""
    with transaction.atomic():
        user = User.objects.select_for_update().get(pk=user.pk)
        others = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk)
        if user.is_superuser and not others.exists():
            raise RealmError(f"{user.get_username()} is the only superuser; make another one first.")
        found = kept(user)
        _rename(user)
        for records in _records(user).values():
            records.delete()
        Session.objects.filter(pk__in=_sessions(user)).delete()
        number = user.pk
        user.delete()
        AuditEntry.record("person.forget", f"account {number}", by=None, **found.removed)
    empty_log()
    return found


def forget_logins(now: datetime | None = None) -> int:
    """Delete the records of logins that are too old, and the sessions that have ended; returns their number.

    Neither axes nor Django removes these by itself.
    """
    now = now or timezone.now()
    old = [kind.objects.filter(attempt_time__lt=now - LOGINS_KEPT) for kind in _LOGINS]
    return sum(records.delete()[0] for records in (*old, Session.objects.filter(expire_date__lt=now)))


def _records(user: User) -> dict[str, QuerySet[Model]]:
    """In the order in which they may be deleted."""
    here = Q(session_key__in=[key for key in _sessions(user).values() if key])  # in their browsers, before the login
    logins = {str(one._meta.verbose_name_plural): one.objects.filter(username=user.get_username()) for one in _LOGINS}
    return {
        "feedback": Feedback.objects.filter(Q(by=user) | Q(here, by=None)),
        "questions": AskedAnswer.objects.filter(Q(asker=user) | Q(here, asker=None)),
        "idempotency keys": IdempotencyKey.objects.filter(owner=f"user{user.pk}"),
        "tokens": user.api_tokens.all(),
        "logins and logouts in the audit trail": AuditEntry.objects.filter(by=user, action__in=_ACCOUNT_ACTIONS),
        "entries of the administration's log": LogEntry.objects.filter(user=user),
        **logins,
    }


def _sessions(user: User) -> dict[str, str]:
    """Their sessions by key, each with the key of its history from before the login, or ""."""
    found = {}
    for session in Session.objects.iterator():
        content = session.get_decoded()
        if content.get(SESSION_KEY) == str(user.pk):
            found[session.session_key] = str(content.get(ASKER_ENTRY, ""))
    return found


def _audit(user: User) -> QuerySet[AuditEntry]:
    """The entries that stay: what they did, and what was done to their account."""
    name = user.get_username()
    about = Q(details__user=name) | Q(target__in=(name, f"user {name}"))
    return AuditEntry.objects.filter(Q(by=user) | about).exclude(action__in=_ACCOUNT_ACTIONS)


def _rename(user: User) -> None:
    """Write the account's number instead of its name into the audit trail."""
    name, number = user.get_username(), f"account {user.pk}"
    for entry in _audit(user):
        entry.name = number if entry.by_id == user.pk else entry.name
        entry.target = {name: number, f"user {name}": f"user {number}"}.get(entry.target, entry.target)
        if entry.details.get("user") == name:
            entry.details["user"] = number
        entry.save()
