"""The row of this process: that it is alive and, for a worker, its queues and the load of its devices."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import close_old_connections, connection
from django.utils import timezone

from webapp.models import Scheduler, WebProcess, Worker
from webapp.models.process import SEEN_EVERY_S
from workers import devices

log = logging.getLogger(__name__)


class Reporter:
    """Reports this worker from its own thread, every SEEN_EVERY_S seconds.

    uses_devices: whether it runs jobs, which compute.
    """

    def __init__(self, queues: list[str], slots: int, *, uses_devices: bool) -> None:
        self._queues, self._slots, self._uses_devices = queues, slots, uses_devices
        self._started_at = timezone.now()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    def start(self) -> None:
        """Report once, so that this worker is known from now on, and start the thread."""
        self._safely(self._report)
        self._thread.start()

    def close(self) -> None:
        """The worker ends normally: its row is deleted at once."""
        self._closed.set()
        if self._thread.ident is not None:  # otherwise it ended before it reached its broker
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(SEEN_EVERY_S):
            self._safely(self._report)
        self._safely(Worker.leave)
        connection.close()

    def _report(self) -> None:
        used = devices.report() if self._uses_devices else []
        told = {"queues": self._queues, "slots": self._slots, "devices": used}
        Worker.report(**told, started_at=self._started_at)

    @staticmethod
    def _safely(step: Callable[[], object]) -> None:
        try:
            step()
        except Exception:  # any error: a worker that stops reporting would be considered lost
            log.exception("This worker could not report itself; it tries again in %d s.", SEEN_EVERY_S)
            close_old_connections()


def sign_of_life() -> None:
    """Report the scheduler, after it has done its work; delete rows of processes that have not reported for long."""
    Scheduler.report()
    for kind in (Worker, WebProcess, Scheduler):
        kind.forget_lost()
