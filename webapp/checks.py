"""Django's checks of our own: `manage.py check --deploy --database default`, and each start of a server that others
reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.core.checks import Error, register

TAG: Final = "admins"
# Those that a script or a habit gives; Django looks at a password when a person chooses it, `createsuperuser
# --no-input` at none. They are few because each costs as long as a login, 0.3 s: 20 would take 6 s for each admin and
# start. The 20,000 commonest cost nothing where the password itself is at hand, which is at the login
# (accounts/login_views.py).
_GUESSES: Final = ("admin", "password", "123456")


@register(TAG, deploy=True)
def check_admins(*, databases: Sequence[str] | None = None, **_: Any) -> list[Error]:
    """An error for every admin whose password is their name or one of the first that anybody tries.

    Nothing where no database is looked at, or none answers yet.
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
            f"The password of the admin {admin.get_username()} is one that anybody guesses; `python manage.py "
            f"changepassword {admin.get_username()}` gives another.",
            id="webapp.E001",
        )
        for admin in admins
        if admin.has_usable_password()
        and any(check_password(guess, admin.password) for guess in {admin.get_username(), *_GUESSES})
    ]
