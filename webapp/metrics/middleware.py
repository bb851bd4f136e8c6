"""Around every request: who listens for it, and what rendering the answer that was made for it took.

What storing and rendering took is kept beside the answer, in a write of its own: it is known only when both are over,
and what the engine said, which permanent links show, never changes.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from uuid import UUID

from django.db import Error
from django.http import HttpRequest, HttpResponse

from webapp.metrics import observe_stages
from webapp.models import AskedAnswer

log = logging.getLogger(__name__)


@dataclass
class Asking:
    """What is known of the request that is being served. kept: its one answer, when that was stored, what that took."""

    connection: socket.socket | None
    kept: tuple[UUID, float, float] | None = None

    def listens(self) -> bool:
        """Whether the other side still has its connection open; True where the server does not tell."""
        if self.connection is None:
            return True
        try:
            closing = select.POLLIN | select.POLLERR | select.POLLHUP
            poll = select.poll()
            poll.register(self.connection, closing)
            # Bytes that can be read belong to the next request; the end of the stream reads as none at all.
            return not poll.poll(0) or bool(self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except (OSError, ValueError):  # ValueError: it has been closed here
            return False


_asking: ContextVar[Asking | None] = ContextVar("asking", default=None)


def asking() -> Asking | None:
    """The request that is being served in this thread; None outside of one."""
    return _asking.get()


def listens() -> Callable[[], bool] | None:
    """What says whether whoever asked is still there; None outside of a request."""
    current = asking()
    return current.listens if current else None


class MeasuringMiddleware:
    """Keeps an `Asking` while a request is being served."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        current = Asking(request.META.get("gunicorn.socket"))
        token = _asking.set(current)
        try:
            response = self._get_response(request)
        finally:
            _asking.reset(token)
        if current.kept is not None:
            answer_id, stored_at, store_ms = current.kept
            serving_ms = {"store": store_ms, "render": (time.perf_counter() - stored_at) * 1e3}
            observe_stages(serving_ms)
            try:
                AskedAnswer.objects.filter(pk=answer_id).update(serving_ms=serving_ms)
            except Error as error:
                log.warning("What it took to serve the answer %s was not kept: %s", answer_id, error)
        return response
