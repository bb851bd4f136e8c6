"""The scheduler that Celery's beat runs here: it does its few short tasks itself.

Sent to the workers they would wait behind jobs of hours, and the leases of lost workers with them; and a broker that
is away would keep them from being done. Its clock is one that is never set: with the usual one, set back by an hour,
nothing would be due for an hour.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedule

_BEGAN: Final = datetime.now(UTC) - timedelta(seconds=time.monotonic())


def every(seconds: float) -> schedule:
    """What is due again after so many seconds, whatever is done to the clock."""
    return schedule(seconds, nowfun=lambda: _BEGAN + timedelta(seconds=time.monotonic()))


class Here(Scheduler):
    """Runs a task that is due in this process; what it raises is logged, and it is due again at its next time."""

    producer = None  # type: ignore[assignment] # Celery's waits for the broker before it looks at anything

    def apply_async(self, entry: ScheduleEntry, producer: Any = None, advance: bool = True, **_options: Any) -> Any:
        if advance:
            self.reserve(entry)  # when it is due next
        return self.app.tasks[str(entry.task)].apply(throw=True)
