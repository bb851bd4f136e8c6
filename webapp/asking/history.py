"""Whose questions are whose.

A person who is logged in owns what they asked. Anyone else is known by a random key inside their session: not by the
session's own key, which would be worth stealing from the database and changes at every login.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Final

from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from webapp.models import AskedAnswer, Feedback, IdempotencyKey

_SESSION_ENTRY: Final = "asker"


@dataclass(frozen=True)
class Asker:
    """Whose word it is: an account's, or else a session's (`asker_key`); neither: nobody's."""

    user: User | AnonymousUser
    session_key: str

    @property
    def words(self) -> QuerySet[Feedback]:
        """What they have said. What was said in this browser before logging in counts as theirs."""
        in_session = Q(by=None, session_key=self.session_key) if self.session_key else Q(pk__in=[])
        return Feedback.objects.filter(Q(by=self.user.pk) | in_session if self.user.pk else in_session)

    def word_on(self, answer: AskedAnswer) -> Feedback | None:
        """Their word on an answer; the account's goes before that of the session."""
        return max(self.words.filter(answer=answer), key=lambda said: said.by_id is not None, default=None)


def asker_key(request: HttpRequest, *, create: bool = False) -> str:
    """The session's key for its history; empty when it has none and none is to be made."""
    key = request.session.get(_SESSION_ENTRY, "")
    if not key and create:
        key = request.session[_SESSION_ENTRY] = secrets.token_hex(20)
    return str(key)


def asker_of(request: HttpRequest, *, create: bool = False) -> Asker:
    """Whose word on an answer it is. create: give the session a key, so that its word can be changed later."""
    return Asker(request.user, asker_key(request, create=create and not request.user.is_authenticated))


def own_answers(request: HttpRequest) -> QuerySet[AskedAnswer]:
    """What this person asked, latest first."""
    own = Q(pk__in=[])
    if request.user.is_authenticated:
        own |= Q(asker=request.user.pk)
    if key := asker_key(request):
        own |= Q(session_key=key)
    return AskedAnswer.objects.filter(own).order_by("-created_at", "pk")


def forget(request: HttpRequest) -> int:
    """Take every question of this person out of their history, and say how many there were.

    The answers stay, with nobody's name on them: links that were passed on must go on showing what they showed. What
    the person said of answers loses its name as well, and their idempotency keys go: both would tell whose questions
    they were.
    """
    own = own_answers(request).order_by()
    with transaction.atomic():
        asker_of(request).words.update(by=None, session_key="")
        IdempotencyKey.objects.filter(answer__in=own).delete()
        return own.update(asker=None, session_key="")
