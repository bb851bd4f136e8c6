"""Login by a trusted proxy, which passes the name of the person who is logged in there in a header (LOGIN_HEADER).

Django's own middleware for this asks all authentication backends. axes would count each refusal as a failed login of no
name, and after ten of them lock out everybody behind the same address; a refused person would be served as anonymous.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, login, logout
from django.contrib.auth.backends import RemoteUserBackend
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.exceptions import MiddlewareNotUsed, ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from realm_core.errors import RealmError
from webapp.access.roles import CURATORS
from webapp.models import AuditEntry, Collection
from webapp.models.token import PREFIX
from webapp.pages.errors import login_refused

# Addresses of programs, which a proxy may let pass without a login: a browser that opens one keeps its session.
_FOR_PROGRAMS: Final = ("/api/", "/mcp", "/healthz", "/readyz", "/metrics")
BACKEND: Final = f"{__name__}.ProxyBackend"

log = logging.getLogger(__name__)


class ProxyBackend(RemoteUserBackend):
    """Accounts by name, made at the first login, without a password. Sessions name this class, so they end when
    LOGIN_HEADER is taken away."""

    def account(self, name: str) -> User | None:
        """The account of a checked name; None if it is closed."""
        with transaction.atomic():
            user, made = User.objects.get_or_create(username=name, defaults={"password": make_password(None)})
            if made:
                AuditEntry.record("account.create", name, by="the proxy")
        return user if self.user_can_authenticate(user) else None


class ProxyLoginMiddleware:
    """Logs in the person whose name the proxy passes; a session that began in this way counts only beside the name.

    A request with a token of ours is the token's: it has no session.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if not settings.LOGIN_HEADER:
            raise MiddlewareNotUsed
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if _has_token(request):
            if began_at_proxy(request):
                request.user = AnonymousUser()
            return self._get_response(request)
        try:
            _log_in(request, passed_name(request))
        except RealmError as refused:
            request.user = AnonymousUser()
            return login_refused(request, str(refused))
        return self._get_response(request)


def passed_name(request: HttpRequest) -> str:
    """The name that the proxy passes; empty if it passes none. RealmError for what no account may be named."""
    if not settings.LOGIN_HEADER or not (given := _header(request, settings.LOGIN_HEADER)):
        return ""
    try:
        name = given.encode("latin-1").decode()  # WSGI's way to write bytes
        User._meta.get_field("username").clean(name, None)
    except (UnicodeError, ValidationError):
        name = ""
    # Normalising would make an account's name of a name that only resembles it.
    if not name or name != User.normalize_username(name):
        log.warning("The proxy passed a name that no account can have: %.200s", ascii(given))
        raise RealmError(
            "The name under which you are logged in cannot be used here: a user name has at most 150 letters, digits "
            "and @ . + - _ characters, without spaces."
        )
    return name


def began_at_proxy(request: HttpRequest) -> bool:
    """Whether the session began with a name that the proxy passed."""
    return request.session.get(BACKEND_SESSION_KEY) == BACKEND


def _log_in(request: HttpRequest, name: str) -> None:
    if not name:
        if began_at_proxy(request):
            if request.path.startswith(_FOR_PROGRAMS):
                request.user = AnonymousUser()
            else:
                logout(request)
        return
    if request.user.get_username() != name:
        user = ProxyBackend().account(name)
        if user is None:
            raise RealmError("Your account here is closed. Whoever manages this site can open it again.")
        login(request, user, backend=BACKEND)
    if settings.LOGIN_GROUPS_HEADER and isinstance(request.user, User):
        _give_groups(request.user, _header(request, settings.LOGIN_GROUPS_HEADER))


def _give_groups(user: User, passed: str) -> None:
    """Change the memberships that open private collections to those that the proxy passes.

    Only of accounts without a password, which only the proxy logs in, and never a role.
    """
    if user.has_usable_password():
        return
    names = {name.strip() for name in passed.encode("latin-1", "replace").decode(errors="replace").split(",")}
    private = Collection.objects.filter(private=True).values("groups")
    opening = set(Group.objects.filter(pk__in=private).exclude(name=CURATORS))
    wanted = {group for group in opening if group.name in names}
    has = opening & set(user.groups.all())
    if wanted != has:
        user.groups.add(*wanted - has)
        user.groups.remove(*has - wanted)
        changed = {"given": sorted(str(one) for one in wanted - has), "taken": sorted(str(one) for one in has - wanted)}
        AuditEntry.record("account.groups", user.get_username(), by="the proxy", **changed)


def _header(request: HttpRequest, name: str) -> str:
    return str(request.META.get(f"HTTP_{name.upper().replace('-', '_')}", "")).strip()


def _has_token(request: HttpRequest) -> bool:
    """Whether it carries a token of ours; the bearer token of another issuer may come from the proxy itself."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and given.strip().startswith(PREFIX)
