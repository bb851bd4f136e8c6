"""Signs of life of web processes: each writes what it answers with into its own row, so all are visible from any of
them. This costs no question: the thread that follows the active deployment (`webapp.serving.engine.watch`) reports.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

from django.db import Error
from django.utils import timezone

from realm_core.errors import printable
from webapp.models import Deployment, WebProcess
from webapp.models.process import SEEN_EVERY_S
from webapp.serving.engine import Status, holder

log = logging.getLogger(__name__)

_STARTED_AT: Final = timezone.now()
_LEAVING_S: Final = 2.0  # to wait for a report in progress


class Presence:
    """The row of this process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: Status | None = None
        self._told_at = 0.0
        self._left = False

    def report(self, status: Status) -> None:
        """Write the state if it has changed or was last written some time ago. Error: the database does not answer."""
        with self._lock:
            lately = time.monotonic() - self._told_at < SEEN_EVERY_S
            if self._left or (status == self._told and lately):
                return
            WebProcess.report(**_row_values(status))
            self._told, self._told_at = status, time.monotonic()

    def leave(self) -> None:
        """Delete the row, because the process ends. If that fails, the row expires by itself."""
        if not self._lock.acquire(timeout=_LEAVING_S):
            return
        try:
            self._left = True
            if self._told is not None:
                WebProcess.leave()
        except Error as error:
            log.debug("The row of this process remains for a while: %s", error)
        finally:
            self._lock.release()


presence: Final = Presence()


@dataclass(frozen=True)
class Answering:
    """What the web processes answer with, compared with the active deployment (None: nothing is deployed).

    alive: this process in its current state, and others with a recent sign of life. lost: others of the last hour that
    did not announce their end.
    """

    deployment: Deployment | None
    alive: list[WebProcess]
    lost: list[WebProcess]

    @property
    def with_it(self) -> list[WebProcess]:
        """The processes that answer with the active deployment."""
        wanted = self.deployment.pk if self.deployment else None
        return [one for one in self.alive if one.deployment_id == wanted and one.state == WebProcess.State.READY]

    @property
    def without_it(self) -> list[WebProcess]:
        """The processes that do not, or not yet."""
        return [one for one in self.alive if one not in self.with_it]

    @property
    def failed(self) -> list[WebProcess]:
        """Those of `without_it` that could not load it."""
        return [one for one in self.without_it if one.reason]

    @property
    def idle(self) -> list[WebProcess]:
        """Those of `without_it` that have loaded nothing, because there was no question."""
        return [one for one in self.without_it if one.state == WebProcess.State.IDLE]

    @property
    def loading(self) -> list[WebProcess]:
        """Those of `without_it` that are loading it, or will within seconds."""
        return [one for one in self.without_it if not one.reason and one.state != WebProcess.State.IDLE]

    @property
    def earlier(self) -> list[int]:
        """Deployments that the others answer with meanwhile."""
        return sorted({one.deployment_id for one in self.without_it if one.deployment_id is not None})

    @property
    def all_loaded(self) -> bool:
        """Whether every process has loaded it, or nothing is deployed."""
        return self.deployment is None or not self.without_it


def answering(deployment: Deployment | None) -> Answering:
    """Query all web processes; this one starts loading `deployment` if it has loaded nothing yet."""
    here = WebProcess.this(**_row_values(holder().status()))
    others = WebProcess.known().exclude(name=here.name)
    known = sorted([here, *others], key=lambda one: (one.host, one.name))
    return Answering(deployment, [one for one in known if one.is_alive], [one for one in known if not one.is_alive])


def _row_values(status: Status) -> dict[str, Any]:
    """What the row of a process says in a state."""
    tried = status.state in (WebProcess.State.READY, WebProcess.State.FAILED)
    return {
        "started_at": _STARTED_AT,
        "state": status.state if status.state in WebProcess.State.values else WebProcess.State.IDLE,
        "deployment_id": status.deployment_id if status.state == WebProcess.State.READY else None,
        "reason": printable(status.reason) if tried else "",
    }
