"""Authentication of API clients: a session cookie, or a token in `Authorization: Bearer realm_…`."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import OperationalError
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from webapp.access.roles import Action, Caller, may
from webapp.models import ApiToken
from webapp.models.token import PREFIX

log = logging.getLogger(__name__)

_USE_NOTED_EVERY: Final = timedelta(minutes=1)  # limits writes by clients that poll


class TokenAuthentication(BaseAuthentication):
    """A token; an invalid one is an error (401), and its caller is not treated as anonymous.

    So is one of our tokens without its scheme. Other schemes are ignored: they may belong to a proxy in front.
    """

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """The person and the token; None if the request has none."""
        if not _is_bearer(request):
            if any(word.startswith(PREFIX) for word in _authorization(request)):
                raise AuthenticationFailed("A token is sent as “Authorization: Bearer realm_…”.")
            return None
        if (token := token_of(request)) is None:
            raise AuthenticationFailed("The token is unknown, has expired or was revoked.")
        _note_use(token)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        """The challenge of a 401, with an error only if a token was sent (RFC 6750, section 3.1)."""
        return 'Bearer error="invalid_token"' if _is_bearer(request) else "Bearer"


def token_of(request: HttpRequest | Request) -> ApiToken | None:
    """The valid token of a request, whether or not REST framework has processed it."""
    words = _authorization(request)
    return ApiToken.of(words[1]) if _is_bearer(request) and len(words) == 2 else None


# Tokens first: the first class gives the challenge. Session requests need the CSRF token.
AUTHENTICATION: Final = [TokenAuthentication, SessionAuthentication]


def caller(request: Request) -> Caller:
    """The token, or else the person of the session; access.roles says what they may do."""
    return request.auth if isinstance(request.auth, ApiToken) else request.user


class ActionPermission(BasePermission):
    """Permission for one of `actions`. Anonymous callers are asked to log in (401), all others are refused (403)."""

    actions: tuple[Action, ...]
    message = ""

    def has_permission(self, request: Request, _view: APIView) -> bool:
        return any(may(caller(request), action) for action in self.actions)


def _permission(refusal: str, *enough: Action) -> type[ActionPermission]:
    class May(ActionPermission):
        actions = enough
        message = refusal

    return May


MayRead: Final = _permission("Without the scope ask, a token cannot read here.", Action.READ)
MayAsk: Final = _permission("The token has not the scope ask.", Action.ASK)
MayGiveFeedback: Final = _permission("The token has not the scope feedback.", Action.FEEDBACK)
MayExplain: Final = _permission("The token has not the scope ask.", Action.EXPLAIN)
MayReadDocuments: Final = _permission(
    "Without the scope ask or documents, a token cannot read here.", Action.READ, Action.EDIT
)
MayEdit: Final = _permission(
    "This is for admins, with a session or a token of the scope documents or operate.", Action.EDIT
)
MayOperate: Final = _permission("This is for admins, with a session or a token of the scope operate.", Action.OPERATE)


def _is_bearer(request: HttpRequest | Request) -> bool:
    return [word.lower() for word in _authorization(request)[:1]] == ["bearer"]


def _authorization(request: HttpRequest | Request) -> list[str]:
    header: str = request.META.get("HTTP_AUTHORIZATION", "")
    return header.split()


def _note_use(token: ApiToken) -> None:
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - _USE_NOTED_EVERY:
        unnoted = Q(last_used_at=None) | Q(last_used_at__lt=now - _USE_NOTED_EVERY)
        try:
            ApiToken.objects.filter(unnoted, pk=token.pk).update(last_used_at=now)
        except OperationalError as error:  # its disk is full, for one, and reading needs no room
            log.warning("That a token was used is not noted: %s", error)


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Tokens in the API's description."""

    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, _auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "`Authorization: Bearer realm_…`; made and revoked on the account page (`/account/`), "
            "or by `manage.py create_token`.",
        }
