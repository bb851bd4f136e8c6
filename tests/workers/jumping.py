"""The tests' workers with a clock that is set: by as many seconds as the file `clock` in the data folder says."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone

CLOCK = Path(os.environ["REALM_DATA"]) / "clock"
_now = timezone.now


def now() -> datetime:
    return _now() + timedelta(seconds=float(CLOCK.read_text()))


timezone.now = now  # before the records are imported, which take it as a default

from tests.workers.app import app  # noqa: E402

__all__ = ["app"]

app.now = now  # Celery's own
