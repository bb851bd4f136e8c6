"""The project's own Django checks: run by `manage.py check --deploy --database default`, and when a server starts in
production."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.core.checks import Error, Tags, register

TAG: Final = "admins"
VERSION_TAG: Final = "version"
# The first passwords of scripts and habits; Django validates a password that a person chooses, but not with
# `createsuperuser --no-input`. The list is short because each check takes as long as a login, 0.3 s: 20 would take 6 s
# per admin and start. The 20,000 commonest are checked at the login, where the password itself is known
# (accounts/login_views.py).
_GUESSES: Final = ("admin", "password", "123456")


@register(TAG, deploy=True)
def check_admins(*, databases: Sequence[str] | None = None, **_: Any) -> list[Error]:
    """An error for every admin whose password is their name or one of the first guesses.

    No error if no database is checked, or none answers yet.
    """
    from django.contrib.auth.hashers import check_password
    from django.contrib.auth.models import User
    from django.db import DatabaseError

    if not databases:
        return []
    try:
        admins = list(User.objects.filter(is_staff=True, is_active=True).order_by("pk"))
    except DatabaseError:
        return []
    return [
        Error(
            f"The password of the admin {admin.get_username()} is easy to guess; set another one with `python "
            f"manage.py changepassword {admin.get_username()}`.",
            id="webapp.E001",
        )
        for admin in admins
        if admin.has_usable_password()
        and any(check_password(guess, admin.password) for guess in {admin.get_username(), *_GUESSES})
    ]


@register(VERSION_TAG, Tags.database)
def check_version(*, databases: Sequence[str] | None = None, **_: Any) -> list[Error]:
    """An error if a newer version has migrated the database. Django itself ignores migrations that it does not know,
    and the rows would be read and written by records that they do not fit. `migrate` runs this check first."""
    from django.db import DatabaseError, connection
    from django.db.migrations.loader import MigrationLoader
    from django.db.migrations.recorder import MigrationRecorder

    if not databases:
        return []
    try:
        applied = {name for app, name in MigrationRecorder(connection).applied_migrations() if app == "webapp"}
    except DatabaseError:
        return []
    known = {name for app, name in MigrationLoader(None).disk_migrations if app == "webapp"}
    if not (unknown := sorted(applied - known)):
        return []
    return [
        Error(
            f"A newer version of this program has upgraded the database (by {unknown[-1]}), which this version cannot "
            "read. Start the newer version, or restore the backup of before the upgrade into an empty database.",
            id="webapp.E002",
        )
    ]
