"""Sessions of staff are short, however they began: what staff change is served to everybody."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware, get_user
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject


@receiver(user_logged_in, dispatch_uid="staff-session")
def shorten(request: HttpRequest, user: User, **_signal: Any) -> None:
    """Let the session of a staff member end soon after the login."""
    if user.is_staff:
        request.session.set_expiry(settings.STAFF_SESSION_SECONDS)


class ShortStaffSessionMiddleware(AuthenticationMiddleware):
    """As Django's, which finds the user when a view asks; a session too long for staff ends then.

    It began before its user became staff.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Let `request.user` be found when it is needed."""
        super().process_request(request)
        request.user = SimpleLazyObject(partial(_user, request))  # type: ignore[assignment]  # as Django does it


def _user(request: HttpRequest) -> User | AnonymousUser:
    user = get_user(request)
    if user.is_staff and request.session.get_expiry_age() > settings.STAFF_SESSION_SECONDS:
        request.session.flush()
        return AnonymousUser()
    return user
