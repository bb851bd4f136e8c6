"""Sessions of staff are short, however they began: what staff change is served to everybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse


@receiver(user_logged_in, dispatch_uid="staff-session")
def shorten(request: HttpRequest, user: User, **_signal: Any) -> None:
    """Let the session of a staff member end soon after the login."""
    if user.is_staff:
        request.session.set_expiry(settings.STAFF_SESSION_SECONDS)


class StaffSessionMiddleware:
    """Ends a session that is longer than those of staff may be: it began before its user became staff."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        staff = settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.is_staff
        if staff and request.session.get_expiry_age() > settings.STAFF_SESSION_SECONDS:
            logout(request)
        return self._get_response(request)
