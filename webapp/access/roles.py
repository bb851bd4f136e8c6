"""Permissions: the one place that pages, REST and all other interfaces ask.

A role follows from two properties of an account, which Django's administration changes: membership of the group of
curators, and the staff flag. A token may do what both its scopes and its owner's current role allow.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Final

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest

from webapp.models import ApiToken
from webapp.models.token import SCOPES

CURATORS: Final = "curators"  # a group, made by a migration

Caller = User | AnonymousUser | ApiToken


class Role(IntEnum):
    """The role of an account; each includes the ones before it."""

    ANONYMOUS = 0
    ASKER = 1
    CURATOR = 2
    ADMIN = 3


class Action(StrEnum):
    """An action that needs permission."""

    READ = "read"  # kept answers, blocks, articles
    ASK = "ask"  # questions, retrieval, masked sentences; the own history
    FEEDBACK = "feedback"  # say whether an answer is right
    EXPLAIN = "explain"  # why an answer is wrong; searches the whole corpus
    ACCOUNT = "account"  # the own account: tokens, password
    CURATE = "curate"  # review feedback; manage question sets; read evaluations
    EDIT = "edit"  # over REST: add, change and remove documents, and what their edits touched
    MEASURE = "measure"  # the metrics of the server
    OPERATE = "operate"  # everything else in the console, and its REST API


_NEEDS: Final = {
    Action.READ: Role.ASKER,
    Action.ASK: Role.ASKER,
    Action.FEEDBACK: Role.ASKER,
    Action.EXPLAIN: Role.ASKER,
    Action.ACCOUNT: Role.ASKER,
    Action.CURATE: Role.CURATOR,
    Action.EDIT: Role.ADMIN,
    Action.MEASURE: Role.ADMIN,
    Action.OPERATE: Role.ADMIN,
}
_IN_OPEN_MODE: Final = {Action.READ, Action.ASK, Action.FEEDBACK}  # allowed for everybody if REALM_PUBLIC is on
_SCOPES: Final = {  # any one of them will do
    Action.READ: ("ask",),
    Action.ASK: ("ask",),
    Action.EXPLAIN: ("ask",),
    Action.FEEDBACK: ("feedback",),
    Action.EDIT: ("documents", "operate"),
    Action.MEASURE: ("metrics", "operate"),
    Action.OPERATE: ("operate",),
}


def role_of(user: User | AnonymousUser) -> Role:
    """The current role of an account; a closed account has none."""
    if not isinstance(user, User) or not user.is_active:
        return Role.ANONYMOUS
    if user.is_staff:
        return Role.ADMIN
    return Role.CURATOR if user.groups.filter(name=CURATORS).exists() else Role.ASKER


def may(caller: Caller, action: Action) -> bool:
    """Whether an account, an anonymous visitor or a token may do something now.

    What everybody may read, a token of any scope may read as well. The scopes documents, metrics and operate are for
    admins only, so no token can curate for a curator.
    """
    if isinstance(caller, ApiToken):
        if settings.REALM_PUBLIC and action == Action.READ:
            return True
        enough = _SCOPES.get(action, ())
        return any(scope in caller.scopes for scope in enough) and _has(caller.user, _NEEDS[action])
    return (settings.REALM_PUBLIC and action in _IN_OPEN_MODE) or _has(caller, _NEEDS[action])


def grantable_scopes(user: User) -> list[str]:
    """The scopes that a token of this person can use."""
    usable = {one for action, scopes in _SCOPES.items() if _has(user, _NEEDS[action]) for one in scopes}
    return [scope for scope in SCOPES if scope in usable]


def _has(user: User | AnonymousUser, role: Role) -> bool:
    """Whether the role is at least this one; the groups are queried only if they matter."""
    if role <= Role.ASKER:
        return isinstance(user, User) and user.is_active
    return role_of(user) >= role


class ViewerRights:
    """The viewer's permissions for templates; queried once, and only if used."""

    def __init__(self, user: User | AnonymousUser) -> None:
        self._user = user

    @cached_property
    def role(self) -> Role:
        return role_of(self._user)

    @property
    def ask(self) -> bool:
        """Whether they may use the question box."""
        return may(self._user, Action.ASK)

    @property
    def explain(self) -> bool:
        """Whether they may ask why an answer is wrong."""
        return may(self._user, Action.EXPLAIN)

    @property
    def curate(self) -> bool:
        """Whether they may use the console's pages for curators."""
        return self.role >= _NEEDS[Action.CURATE]

    @property
    def operate(self) -> bool:
        """Whether they may use the whole console."""
        return self.role >= _NEEDS[Action.OPERATE]


def rights(request: HttpRequest) -> dict[str, ViewerRights]:
    """Permissions for every template (a context processor)."""
    return {"rights": ViewerRights(request.user)}
