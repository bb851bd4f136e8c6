"""The history of askers: who asked which questions.

Questions of a logged-in person belong to the account. Others are identified by a random key inside their session: not
by the session's own key, which would be a secret in the database and changes at every login.
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
    """The author of feedback: an account, or else a session (`asker_key`), or neither."""

    user: User | AnonymousUser
    session_key: str

    @property
    def words(self) -> QuerySet[Feedback]:
        """Their feedback. Feedback given in this browser before logging in is included."""
        in_session = Q(by=None, session_key=self.session_key) if self.session_key else Q(pk__in=[])
        return Feedback.objects.filter(Q(by=self.user.pk) | in_session if self.user.pk else in_session)

    def word_on(self, answer: AskedAnswer) -> Feedback | None:
        """Their feedback on an answer; the account's takes precedence over the session's."""
        return max(self.words.filter(answer=answer), key=lambda said: said.by_id is not None, default=None)


def asker_key(request: HttpRequest, *, create: bool = False) -> str:
    """The session's key for its history; empty if it has none and none is to be created."""
    key = request.session.get(_SESSION_ENTRY, "")
    if not key and create:
        key = request.session[_SESSION_ENTRY] = secrets.token_hex(20)
    return str(key)


def asker_of(request: HttpRequest, *, create: bool = False) -> Asker:
    """The asker of a request. create: give the session a key, so that feedback can be changed later."""
    return Asker(request.user, asker_key(request, create=create and not request.user.is_authenticated))


def own_answers(request: HttpRequest) -> QuerySet[AskedAnswer]:
    """This person's questions, latest first."""
    own = Q(pk__in=[])
    if request.user.is_authenticated:
        own |= Q(asker=request.user.pk)
    if key := asker_key(request):
        own |= Q(session_key=key)
    return AskedAnswer.objects.filter(own).order_by("-created_at", "pk")


def forget(request: HttpRequest) -> int:
    """Remove every question of this person from the history; returns their number.

    The answers remain, without an owner, because permanent links must continue to work. The person's feedback loses its
    owner as well, and the idempotency keys are deleted, because both would identify the owner.
    """
    own = own_answers(request).order_by()
    with transaction.atomic():
        asker_of(request).words.update(by=None, session_key="")
        IdempotencyKey.objects.filter(answer__in=own).delete()
        return own.update(asker=None, session_key="")
