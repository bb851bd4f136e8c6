"""Who calls the API: a person's session, or a token in `Authorization: Bearer realm_…`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, SessionAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from webapp.access.roles import Action, Caller, may
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


def token_of(request: HttpRequest) -> ApiToken | None:
    """The valid token that a request carries, before REST framework has looked at it."""
    words = request.headers.get("Authorization", "").encode("latin-1", "replace").split()
    return ApiToken.of(words[1].decode("latin-1")) if _of_bearer(words) and len(words) == 2 else None


# Tokens first: the first class gives the challenge. Sessions must bring the CSRF token.
AUTHENTICATION: Final = [TokenAuthentication, SessionAuthentication]


def caller(request: Request) -> Caller:
    """Who calls: the token, or else whom the session belongs to; access.roles says what they may."""
    return request.auth if isinstance(request.auth, ApiToken) else request.user


class May(BasePermission):
    """Those who may do `action`. Nobody in particular is told to log in (401), everybody else is refused (403)."""

    action: Action
    message = ""

    def has_permission(self, request: Request, _view: APIView) -> bool:
        """Whether this caller may."""
        return may(caller(request), self.action)


class MayRead(May):
    """May read kept answers and blocks."""

    action = Action.READ
    message = "Without the scope ask, a token cannot read here."


class MayAsk(May):
    """May ask."""

    action = Action.ASK
    message = "The token has not the scope ask."


class MayGiveFeedback(May):
    """May say what they think of an answer."""

    action = Action.FEEDBACK
    message = "The token has not the scope feedback."


class MayExplain(May):
    """Signed in, and may ask."""

    action = Action.EXPLAIN
    message = "The token has not the scope ask."


class MayOperate(May):
    """Admins, with a session or a token for operating."""

    action = Action.OPERATE
    message = "This is for admins, with a session or a token of the scope operate."


def _of_bearer(words: list[bytes]) -> bool:
    return bool(words) and words[0].lower() == b"bearer"


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
            "description": "`Authorization: Bearer realm_…`; made and revoked on one's own page (`/account/`), "
            "or by `manage.py create_token`.",
        }
