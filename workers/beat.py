"""The scheduler for Celery's beat: it runs its few short tasks in its own process.

As messages to the workers they would wait behind jobs of hours, and so would the recovery of lost workers' leases; and
without a broker they would not run at all. It uses a monotonic clock: if the usual one were set back by an hour,
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
    """Due again after so many seconds of the monotonic clock."""
    return schedule(seconds, nowfun=lambda: _BEGAN + timedelta(seconds=time.monotonic()))


class InProcessScheduler(Scheduler):
    """Runs a due task in this process; exceptions are logged, and the task is due again at its next time."""

    producer = None  # type: ignore[assignment] # Celery's producer would wait for the broker first

    def apply_async(self, entry: ScheduleEntry, producer: Any = None, advance: bool = True, **_options: Any) -> Any:
        if advance:
            self.reserve(entry)  # when it is due next
        return self.app.tasks[str(entry.task)].apply(throw=True)
