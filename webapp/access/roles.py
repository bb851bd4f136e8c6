"""Who may do what: the one place that pages, REST and every other door ask.

An account's role follows from two facts that Django's administration changes: membership of the group of curators, and
the staff flag. A token may do what its scopes and the present role of its owner both allow.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Final

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest

from webapp.models import ApiToken

CURATORS: Final = "curators"  # a group, made by a migration

Caller = User | AnonymousUser | ApiToken


class Role(IntEnum):
    """What somebody is; each may do all that those before it may."""

    ANONYMOUS = 0
    ASKER = 1
    CURATOR = 2
    ADMIN = 3


class Action(StrEnum):
    """What somebody may be allowed to do."""

    READ = "read"  # kept answers, blocks, articles
    ASK = "ask"  # questions, retrieval, gaps; one's own history
    FEEDBACK = "feedback"  # say of an answer whether it is right
    EXPLAIN = "explain"  # be told why an answer is wrong, for which a whole corpus is looked through
    ACCOUNT = "account"  # one's own page: tokens, password
    CURATE = "curate"  # review feedback; look after question sets; look at evaluations
    OPERATE = "operate"  # everything else in the console, and its REST API


_NEEDS: Final = {
    Action.READ: Role.ASKER,
    Action.ASK: Role.ASKER,
    Action.FEEDBACK: Role.ASKER,
    Action.EXPLAIN: Role.ASKER,
    Action.ACCOUNT: Role.ASKER,
    Action.CURATE: Role.CURATOR,
    Action.OPERATE: Role.ADMIN,
}
_IN_OPEN_MODE: Final = {Action.READ, Action.ASK, Action.FEEDBACK}  # for everybody, while REALM_PUBLIC is on
_SCOPE: Final = {
    Action.READ: "ask",
    Action.ASK: "ask",
    Action.EXPLAIN: "ask",
    Action.FEEDBACK: "feedback",
    Action.OPERATE: "operate",
}


def role_of(user: User | AnonymousUser) -> Role:
    """What an account is now; one that was closed is as good as none."""
    if not isinstance(user, User) or not user.is_active:
        return Role.ANONYMOUS
    if user.is_staff:
        return Role.ADMIN
    return Role.CURATOR if user.groups.filter(name=CURATORS).exists() else Role.ASKER


def may(caller: Caller, action: Action) -> bool:
    """Whether an account, nobody in particular, or a token may do something now.

    What anybody may look at, a token of any scope may as well. The scope operate is for admins alone, so a token never
    curates for a curator.
    """
    if isinstance(caller, ApiToken):
        if settings.REALM_PUBLIC and action == Action.READ:
            return True
        scope = _SCOPE.get(action)
        return scope is not None and scope in caller.scopes and _has(caller.user, _NEEDS[action])
    return (settings.REALM_PUBLIC and action in _IN_OPEN_MODE) or _has(caller, _NEEDS[action])


def grantable_scopes(user: User) -> list[str]:
    """The scopes that a token of this person can make use of."""
    return list(dict.fromkeys(scope for action, scope in _SCOPE.items() if _has(user, _NEEDS[action])))


def _has(user: User | AnonymousUser, role: Role) -> bool:
    """Whether somebody is at least that; the groups are looked up only where they matter."""
    if role <= Role.ASKER:
        return isinstance(user, User) and user.is_active
    return role_of(user) >= role


class Rights:
    """What a page's template asks about whoever looks at it; looked up once, and only where the page asks."""

    def __init__(self, user: User | AnonymousUser) -> None:
        self._user = user

    @cached_property
    def role(self) -> Role:
        """What they are."""
        return role_of(self._user)

    @property
    def ask(self) -> bool:
        """Whether the question box is open to them."""
        return may(self._user, Action.ASK)

    @property
    def explain(self) -> bool:
        """Whether they are told why an answer is wrong."""
        return may(self._user, Action.EXPLAIN)

    @property
    def curate(self) -> bool:
        """Whether the console's pages for curators are."""
        return self.role >= _NEEDS[Action.CURATE]

    @property
    def operate(self) -> bool:
        """Whether the whole console is."""
        return self.role >= _NEEDS[Action.OPERATE]


def rights(request: HttpRequest) -> dict[str, Rights]:
    """For every template (a context processor)."""
    return {"rights": Rights(request.user)}
