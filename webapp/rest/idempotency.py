"""Idempotency keys: a question sent again with the same key gets the kept answer, and an edit of documents is made
once.

A key belongs to its asker, for a day. It is a row with a unique constraint, so of several simultaneous requests only
one asks, and its answer is stored in the same transaction as the key: a server that dies leaves both or neither.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
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
_STORING_S: Final = 30  # upper bound for storing an answer
_UNDER_WAY: Final = Q(answer=None, documents__isnull=True)


class KeyConflict(RealmError):
    """The key was sent with another question or edit."""

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was sent with another request.")


class KeyInUse(StateConflict):
    """The request with this key is in progress."""

    retry_after_s = 1

    def __init__(self) -> None:
        super().__init__("The request with this Idempotency-Key is under way.")


class Claim:
    """The right to process the request of a key, or what an earlier request with the key has led to.

    answer, documents: of the earlier request; documents by id, each with the version that its edit left. As a context
    it gives the key up where processing fails, so that a repeated request is processed again.
    """

    def __init__(self, row: IdempotencyKey) -> None:
        self.answer = row.answer
        # Rows of 0.2.0 have the ids alone.
        pairs: list[tuple[str, str | None]] = [
            (one, None) if isinstance(one, str) else (one[0], one[1]) for one in row.documents or ()
        ]
        self.documents = None if row.documents is None else dict(pairs)
        self._mine = IdempotencyKey.objects.filter(_UNDER_WAY, pk=row.pk)

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is not None:
            self._mine.delete()

    def fulfil(self, answer: AskedAnswer | None = None, documents: Mapping[str, str | None] | None = None) -> None:
        """Store the answer, or the edited documents, with the key, in the transaction that commits these.

        documents: the version of each, by id; None: it was removed. KeyInUse if another request has taken the key over
        meanwhile; then nothing is stored.
        """
        pairs = None if documents is None else list(documents.items())  # PostgreSQL does not keep the order of keys
        if not self._mine.update(answer=answer, documents=pairs):
            raise KeyInUse


def longest() -> timedelta:
    """A request that has held its key for longer is considered dead."""
    return timedelta(seconds=settings.ASK_DEADLINE_S + _STORING_S)


def claim(owner: str, key: str, sent: Mapping[str, Any]) -> Claim:
    """The right to process the request `sent` with this key, or what it has led to. KeyConflict or KeyInUse."""
    digest = hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()
    now = timezone.now()
    # A later start than now was written by a clock that was ahead.
    gone = Q(since__lt=now - longest()) | Q(since__gt=now + longest())
    IdempotencyKey.objects.filter(since__lt=now - KEPT).delete()
    IdempotencyKey.objects.filter(gone, _UNDER_WAY, owner=owner, key=key).delete()
    try:
        with transaction.atomic():
            return Claim(IdempotencyKey.objects.create(owner=owner, key=key, digest=digest, since=now))
    except IntegrityError:
        row = IdempotencyKey.objects.select_related("answer").filter(owner=owner, key=key).first()
    if row is None:  # its request failed a moment ago
        raise KeyInUse
    if row.digest != digest:
        raise KeyConflict
    if row.answer is None and row.documents is None:
        raise KeyInUse
    return Claim(row)
