"""Idempotency keys: a question that is sent again with the same key gets the answer that it already has, and an edit
of documents is made once.

A key belongs to whoever asked, for a day. It is a row with a unique constraint, so of several requests at the same
instant one asks, and its answer is kept in the same transaction as the key: a server that dies leaves both or neither.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from realm_core.errors import RealmError
from webapp.models import AskedAnswer, IdempotencyKey
from webapp.refusals import StateConflict

KEPT: Final = timedelta(hours=24)
_STORING_S: Final = 30  # at most, with what lies around it
_UNDER_WAY: Final = Q(answer=None, documents__isnull=True)


class KeyConflict(RealmError):
    """The key was sent with another question, or another edit."""

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was sent with another request.")


class KeyInUse(StateConflict):
    """The request of this key is under way."""

    retry_after_s = 1

    def __init__(self) -> None:
        super().__init__("The request with this Idempotency-Key is under way.")


class Claim:
    """The right to do what was sent with a key."""

    def __init__(self, row: IdempotencyKey) -> None:
        self._mine = IdempotencyKey.objects.filter(_UNDER_WAY, pk=row.pk)

    def fulfil(self, asked: AskedAnswer) -> None:
        """Keep the answer with the key, in the transaction that keeps the answer itself.

        KeyInUse where another request took the key over meanwhile; the answer is not kept then.
        """
        if not self._mine.update(answer=asked):
            raise KeyInUse

    def fulfil_edit(self, document_ids: Sequence[str]) -> None:
        """Keep which documents an edit was about, in the transaction that commits it. KeyInUse as `fulfil`."""
        if not self._mine.update(documents=list(document_ids)):
            raise KeyInUse

    def give_up(self) -> None:
        """There is no answer: whoever sends the key again asks anew."""
        self._mine.delete()


def longest() -> timedelta:
    """Whoever asked with a key that has been under way for longer is gone."""
    return timedelta(seconds=settings.ASK_DEADLINE_S + _STORING_S)


def claim(owner: str, key: str, asked: Mapping[str, Any]) -> Claim | AskedAnswer:
    """The right to answer what was `asked` with this key, or the answer that it has. KeyConflict or KeyInUse."""
    row = _claimed(owner, key, asked)
    if isinstance(row, Claim):
        return row
    if row.answer is None:  # a digest is that of a question or of an edit
        raise KeyConflict
    return row.answer


def claim_edit(owner: str, key: str, sent: Mapping[str, Any]) -> Claim | list[str]:
    """The right to make the edit that was `sent` with this key, or the ids of its documents. Errors as `claim`."""
    row = _claimed(owner, key, sent)
    if isinstance(row, Claim):
        return row
    if row.documents is None:
        raise KeyConflict
    return list(row.documents)


def _claimed(owner: str, key: str, sent: Mapping[str, Any]) -> Claim | IdempotencyKey:
    """The right to do what was sent, or the row of one that did it."""
    digest = hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()
    now = timezone.now()
    # What began later than now is of a clock that was ahead.
    gone = Q(since__lt=now - longest()) | Q(since__gt=now + longest())
    IdempotencyKey.objects.filter(since__lt=now - KEPT).delete()
    IdempotencyKey.objects.filter(gone, _UNDER_WAY, owner=owner, key=key).delete()
    try:
        with transaction.atomic():
            return Claim(IdempotencyKey.objects.create(owner=owner, key=key, digest=digest, since=now))
    except IntegrityError:
        row = IdempotencyKey.objects.select_related("answer").filter(owner=owner, key=key).first()
    if row is None:  # its request has just failed
        raise KeyInUse
    if row.digest != digest:
        raise KeyConflict
    if row.answer is None and row.documents is None:
        raise KeyInUse
    return row
