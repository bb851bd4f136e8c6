"""The history of askers: who asked which questions.

Questions of a logged-in person belong to the account. Others are identified by a random key inside their session: not
by the session's own key, which would be a secret in the database and changes at every login.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import Http404, HttpRequest
from rest_framework.request import Request

from webapp.access.collections import access_of
from webapp.models import AskedAnswer, EvidenceBlock, Feedback, GoneBlock, IdempotencyKey
from webapp.models.answer import ASKER_ENTRY


@dataclass(frozen=True)
class Asker:
    """The author of feedback: an account, or else a session (`asker_key`), or neither."""

    user: User | AnonymousUser
    session_key: str

    @property
    def feedback(self) -> QuerySet[Feedback]:
        """Their feedback. Feedback given in this browser before logging in is included."""
        in_session = Q(by=None, session_key=self.session_key) if self.session_key else Q(pk__in=[])
        return Feedback.objects.filter(Q(by=self.user.pk) | in_session if self.user.pk else in_session)

    def feedback_on(self, answer: AskedAnswer) -> Feedback | None:
        """Their feedback on an answer; the account's takes precedence over the session's."""
        return max(self.feedback.filter(answer=answer), key=lambda said: said.by_id is not None, default=None)


def asker_key(request: HttpRequest | Request, *, create: bool = False) -> str:
    """The session's key for its history; empty when it has none and none is to be made.

    A program with a token has no history in a browser, whatever cookies it sends.
    """
    if getattr(request, "auth", None):
        return ""
    key = request.session.get(ASKER_ENTRY, "")
    if not key and create:
        key = request.session[ASKER_ENTRY] = secrets.token_hex(20)
    return str(key)


def asker_of(request: HttpRequest | Request, *, create: bool = False) -> Asker:
    """The asker of a request. create: give the session a key, so that feedback can be changed later."""
    return Asker(request.user, asker_key(request, create=create and not request.user.is_authenticated))


def own_answers(request: HttpRequest | Request) -> QuerySet[AskedAnswer]:
    """This person's answers, latest first."""
    return AskedAnswer.objects.filter(_own(request)).order_by("-created_at", "pk")


def listed_answers(request: HttpRequest | Request) -> QuerySet[AskedAnswer]:
    """`own_answers` for a list; `evidence_changed`: whether blocks of an answer's evidence are no longer searched."""
    return own_answers(request).defer("payload").annotate(evidence_changed=GoneBlock.in_any_evidence())


def readable_answers(request: HttpRequest | Request) -> QuerySet[AskedAnswer]:
    """This person's answers, and all others without evidence from a collection that is hidden from them."""
    hidden = access_of(request.user).hidden
    return AskedAnswer.objects.filter(_own(request) | _without(hidden)) if hidden else AskedAnswer.objects.all()


def answers_without(hidden: Collection[str]) -> QuerySet[AskedAnswer]:
    """All answers without evidence from these collections."""
    return AskedAnswer.objects.filter(_without(hidden)) if hidden else AskedAnswer.objects.all()


def readable_answer(request: HttpRequest | Request, answer_id: UUID, *related: str) -> AskedAnswer:
    """A kept answer that this person may read, or 404. related: rows to be read with it."""
    asked = readable_answers(request).select_related(*related).filter(pk=answer_id).first()
    if asked is None:
        raise Http404
    # Its page names the collections that were looked in, also where nothing of theirs was read.
    named = access_of(request.user).hidden.intersection(asked.collections)
    if named and not AskedAnswer.objects.filter(_own(request), pk=answer_id).exists():
        raise Http404
    return asked


def _without(hidden: Collection[str]) -> Q:
    return Q(~Exists(EvidenceBlock.objects.filter(answer=OuterRef("pk"), collection__in=hidden)))


def _own(request: HttpRequest | Request) -> Q:
    own = Q(pk__in=[])
    if request.user.is_authenticated:
        own |= Q(asker=request.user.pk)
    if key := asker_key(request):
        own |= Q(session_key=key)
    return own


def forget(request: HttpRequest) -> int:
    """Remove every question of this person from the history; returns their number.

    The answers remain, without an owner, because permanent links must continue to work. The person's feedback loses its
    owner as well, and the idempotency keys are deleted, because both would identify the owner.
    """
    own = own_answers(request).order_by()
    with transaction.atomic():
        asker_of(request).feedback.update(by=None, session_key="")
        IdempotencyKey.objects.filter(answer__in=own).delete()
        return own.update(asker=None, session_key="")
