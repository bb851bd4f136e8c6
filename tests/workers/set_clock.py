"""A clock that tests set: ahead of the machine's by as many seconds as the file `clock` in the data folder says.

Import it before the records, which take the clock as a default.
"""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone

_CLOCK = Path(os.environ["REALM_DATA"]) / "clock"
_now, _time = timezone.now, time.time


def now() -> datetime:
    return _now() + timedelta(seconds=_ahead_s())


def _ahead_s() -> float:
    return float(_CLOCK.read_text() or 0)  # nothing: it is being written


timezone.now = now
time.time = lambda: _time() + _ahead_s()
