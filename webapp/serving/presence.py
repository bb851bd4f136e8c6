"""Signs of life of web processes: each writes into a row of its own what it answers with, so that all can be seen from
any of them. A question costs none of it: the thread that follows the active deployment (`webapp.serving.engine.watch`)
tells.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Final

from django.db import Error
from django.utils import timezone

from realm_core.errors import printable
from webapp.models import Deployment, WebProcess
from webapp.models.process import SEEN_EVERY_S, host, process_name
from webapp.serving.engine import Status, holder

log = logging.getLogger(__name__)

_WRITTEN: Final = ("host", "seen_at", "state", "deployment", "reason")
_STARTED_AT: Final = timezone.now()
_LEAVING_S: Final = 2.0  # to wait for a sign of life that is being given


class Presence:
    """The row of this process. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: Status | None = None
        self._told_at = 0.0
        self._left = False

    def tell(self, status: Status) -> None:
        """Write how things stand, if that has changed or was last written a while ago. Error: the database is away."""
        with self._lock:
            lately = time.monotonic() - self._told_at < SEEN_EVERY_S
            if self._left or (status == self._told and lately):
                return
            WebProcess.objects.bulk_create(
                [_row(status)], update_conflicts=True, unique_fields=["name"], update_fields=_WRITTEN
            )
            self._told, self._told_at = status, time.monotonic()

    def leave(self) -> None:
        """The process ends in good order: its row goes at once. Where that cannot be, it goes later by itself."""
        if not self._lock.acquire(timeout=_LEAVING_S):
            return
        try:
            self._left = True
            if self._told is not None:
                WebProcess.objects.filter(name=process_name()).delete()
        except Error as error:
            log.debug("The row of this process stays for a while: %s", error)
        finally:
            self._lock.release()


presence: Final = Presence()


@dataclass(frozen=True)
class Answering:
    """What the web processes answer with, beside what is deployed (None: nothing is).

    alive: this one as it is now, and the others that were heard of lately. lost: others of the last hour, which gave no
    word that they end.
    """

    deployment: Deployment | None
    alive: list[WebProcess]
    lost: list[WebProcess]

    @property
    def with_it(self) -> list[WebProcess]:
        """Those that answer with what is deployed."""
        wanted = self.deployment.pk if self.deployment else None
        return [one for one in self.alive if one.deployment_id == wanted and one.state == WebProcess.State.READY]

    @property
    def without_it(self) -> list[WebProcess]:
        """Those that do not, or not yet."""
        return [one for one in self.alive if one not in self.with_it]

    @property
    def failed(self) -> list[WebProcess]:
        """Of these, the ones that could not load it."""
        return [one for one in self.without_it if one.reason]

    @property
    def idle(self) -> list[WebProcess]:
        """Of these, the ones that have loaded nothing, because nobody has asked them anything."""
        return [one for one in self.without_it if one.state == WebProcess.State.IDLE]

    @property
    def loading(self) -> list[WebProcess]:
        """Of these, the ones that are loading it, or will within seconds."""
        return [one for one in self.without_it if not one.reason and one.state != WebProcess.State.IDLE]

    @property
    def earlier(self) -> list[int]:
        """Deployments that the others answer with meanwhile."""
        return sorted({one.deployment_id for one in self.without_it if one.deployment_id is not None})

    @property
    def all_loaded(self) -> bool:
        """Whether nothing more is to come."""
        return self.deployment is None or not self.without_it


def answering(deployment: Deployment | None) -> Answering:
    """Look at all web processes; this one begins to load what is `deployment`, if it has loaded nothing yet."""
    here = _row(holder().status())
    others = WebProcess.known().exclude(name=here.name)
    known = sorted([here, *others], key=lambda one: (one.host, one.name))
    return Answering(deployment, [one for one in known if one.is_alive], [one for one in known if not one.is_alive])


def _row(status: Status) -> WebProcess:
    """This process, not saved."""
    tried = status.state in (WebProcess.State.READY, WebProcess.State.FAILED)
    return WebProcess(
        name=process_name(),
        host=host(),
        started_at=_STARTED_AT,
        state=status.state if status.state in WebProcess.State.values else WebProcess.State.IDLE,
        deployment_id=status.deployment_id if status.state == WebProcess.State.READY else None,
        reason=printable(status.reason) if tried else "",
    )
