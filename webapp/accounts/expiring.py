"""Records of logins and ended sessions, which neither axes nor Django removes by itself."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib.sessions.models import Session
from django.db.models import Q
from django.utils import timezone

LOGINS_KEPT: Final = timedelta(days=90)  # with addresses and browsers: for whoever looks into a stolen password


def forget_logins(now: datetime | None = None) -> int:
    """Delete the records of logins that are too old, and the sessions that have ended; returns their number."""
    now = now or timezone.now()
    before = Q(attempt_time__lt=now - LOGINS_KEPT)
    old = [kind.objects.filter(before) for kind in (AccessAttempt, AccessFailureLog, AccessLog)]
    return sum(records.delete()[0] for records in (*old, Session.objects.filter(expire_date__lt=now)))
