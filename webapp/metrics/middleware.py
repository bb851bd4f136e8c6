"""For every request: whether the client is still connected, and the time to store and render its answers.

This time is stored beside the answer in a separate write, because it is known only after both; the answer itself, which
permanent links show, never changes.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from django.db import Error, close_old_connections
from django.http import HttpRequest, HttpResponse

from webapp.metrics import observe_stages
from webapp.models import AskedAnswer

SERVING_MS: Final = "realm.serving_ms"  # key in a request's environment, for its log line

log = logging.getLogger(__name__)


@dataclass
class Asking:
    """State of the request that is being served.

    answer:     the one stored for it; None for a batch, whose answers are served one by one.
    serving_ms: time to store and render all its answers; a stream adds to it after the middleware.
    """

    connection: socket.socket | None
    answer: AskedAnswer | None = None
    serving_ms: dict[str, float] = field(default_factory=dict)
    _renders_since: float | None = None

    def add(self, stage: str, spent_ms: float) -> None:
        self.serving_ms[stage] = self.serving_ms.get(stage, 0.0) + spent_ms

    def renders(self) -> None:
        """All is stored; the time from now on is rendering."""
        self._renders_since = time.perf_counter()

    def rendered(self) -> None:
        """The response is complete; never called for a stream."""
        if self._renders_since is not None:
            self.add("render", (time.perf_counter() - self._renders_since) * 1e3)

    def listens(self) -> bool:
        """Whether the client still has its connection open; True if the server does not know."""
        if self.connection is None:
            return True
        try:
            closing = select.POLLIN | select.POLLERR | select.POLLHUP
            poll = select.poll()
            poll.register(self.connection, closing)
            # Readable bytes belong to the next request; the end of the stream reads as no bytes.
            return not poll.poll(0) or bool(self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except (OSError, ValueError):  # ValueError: closed by this side
            return False


_asking: ContextVar[Asking | None] = ContextVar("asking", default=None)


def current_asking() -> Asking | None:
    """The request that is being served in this thread; None outside of a request."""
    return _asking.get()


def listens() -> Callable[[], bool] | None:
    """A function that says whether the client is still connected; None outside of a request."""
    current = current_asking()
    return current.listens if current else None


def served(asked: AskedAnswer) -> None:
    """Record the time of serving an answer: in the metrics, beside the answer, and in the log."""
    observe_stages(asked.serving_ms)
    try:
        AskedAnswer.objects.filter(pk=asked.pk).update(serving_ms=asked.serving_ms)
    except Error as error:
        close_old_connections()  # replaces a broken connection for later queries
        log.warning("The time of serving the answer %s was not stored: %s", asked.pk, error)
    stages_ms = {**asked.payload["timings_ms"], **asked.serving_ms}
    fields = {"answer_id": asked.pk, "latency_ms": asked.latency_ms, "stages_ms": stages_ms}
    log.info("Answer %s took %.0f ms.", asked.pk, asked.latency_ms, extra={"fields": fields})


class MeasuringMiddleware:
    """Keeps an `Asking` while a request is being served, and adds the time of serving to the response."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        current = Asking(request.META.get("gunicorn.socket"))
        request.META[SERVING_MS] = current.serving_ms
        token = _asking.set(current)
        try:
            response = self._get_response(request)
        finally:
            _asking.reset(token)
        current.rendered()
        if current.serving_ms:
            stages = (f"{stage};dur={spent_ms:.1f}" for stage, spent_ms in current.serving_ms.items())
            response["Server-Timing"] = ", ".join(stages)
        if current.answer is not None:
            current.answer.serving_ms = dict(current.serving_ms)
            served(current.answer)
        return response
