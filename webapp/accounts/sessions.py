"""Sessions: each login and logout is in the audit trail; those of curators and admins are short, however they began."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware, get_user
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from webapp.access.roles import Role, role_of
from webapp.models import AuditEntry


@receiver(user_logged_in, dispatch_uid="audit-login")
def record_login(user: User, **_signal: Any) -> None:
    """Add an audit entry."""
    AuditEntry.record("login", user.get_username(), by=user)


@receiver(user_logged_out, dispatch_uid="audit-logout")
def record_logout(user: User | None, **_signal: Any) -> None:
    """Add an audit entry, also for the administration's own address; none without a session."""
    if user is not None:
        AuditEntry.record("logout", user.get_username(), by=user)


@receiver(user_logged_in, dispatch_uid="short-session")
def shorten(request: HttpRequest, user: User, **_signal: Any) -> None:
    """Let the session of a curator or an admin end soon after the login."""
    if role_of(user) >= Role.CURATOR:
        request.session.set_expiry(settings.SHORT_SESSION_SECONDS)


class ShortSessionMiddleware(AuthenticationMiddleware):
    """Django's, which finds the user when a view asks for it; a session that is too long for their role is then ended.

    It began before they had that role.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Let `request.user` be found when it is needed."""
        super().process_request(request)
        request.user = SimpleLazyObject(partial(_user, request))  # type: ignore[assignment]  # as Django does it


def _user(request: HttpRequest) -> User | AnonymousUser:
    user = get_user(request)
    if request.session.get_expiry_age() > settings.SHORT_SESSION_SECONDS and role_of(user) >= Role.CURATOR:
        request.session.flush()
        return AnonymousUser()
    return user
