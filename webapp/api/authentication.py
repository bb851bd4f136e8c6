"""Who calls the API: a person's session, or a token in `Authorization: Bearer realm_…`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, SessionAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from webapp.models import ApiToken

_USE_NOTED_EVERY: Final = timedelta(minutes=1)  # a client that polls shall not write a row with each request


class TokenAuthentication(BaseAuthentication):
    """A token; one that is wrong is an error (401), and its caller is never taken for somebody anonymous.

    Other schemes are left alone: a proxy in front may have asked for a password of its own.
    """

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """The person and the token; None where the request carries none."""
        words = get_authorization_header(request).split()
        if not _of_bearer(words):
            return None
        token = ApiToken.of(words[1].decode("latin-1")) if len(words) == 2 else None
        if token is None:
            raise AuthenticationFailed("The token is unknown, has expired or was revoked.")
        _note_use(token)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        """The challenge of a 401: with an error only when there was a token (RFC 6750, section 3.1)."""
        return 'Bearer error="invalid_token"' if _of_bearer(get_authorization_header(request).split()) else "Bearer"


# Tokens first: the first class gives the challenge. Sessions must bring the CSRF token.
AUTHENTICATION: Final = [TokenAuthentication, SessionAuthentication]


class MayAsk(BasePermission):
    """Everybody, but a token only when it is one for asking."""

    message = "The token has not the scope ask."

    def has_permission(self, request: Request, _view: APIView) -> bool:
        """Whether this caller may ask."""
        return _allows(request, "ask")


class MayOperate(BasePermission):
    """Members of the staff, with a session or a token for operating."""

    message = "This is for staff, with a session or a token of the scope operate."

    def has_permission(self, request: Request, _view: APIView) -> bool:
        """Whether this caller may operate."""
        return bool(request.user.is_staff) and _allows(request, "operate")


def _of_bearer(words: list[bytes]) -> bool:
    return bool(words) and words[0].lower() == b"bearer"


def _allows(request: Request, scope: str) -> bool:
    """Whether the request came without a token, or with one of that scope."""
    return not isinstance(request.auth, ApiToken) or scope in request.auth.scopes


def _note_use(token: ApiToken) -> None:
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - _USE_NOTED_EVERY:
        unnoted = Q(last_used_at=None) | Q(last_used_at__lt=now - _USE_NOTED_EVERY)
        ApiToken.objects.filter(unnoted, pk=token.pk).update(last_used_at=now)


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the API's description names tokens."""

    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, _auto_schema: Any) -> dict[str, Any]:
        """The scheme."""
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "`Authorization: Bearer realm_…`; made by `manage.py create_token`.",
        }
