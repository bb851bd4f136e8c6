"""gunicorn's worker of threads, which does not wait for ever until a request has come whole or a response is taken.

By itself it keeps a thread for whoever has begun to send something, however slowly it comes, and for whoever takes
nothing of what is sent; as many of them as there are threads would shut everybody else out.
"""

from __future__ import annotations

import errno
import json
import socket
import time
from contextlib import suppress
from typing import Any, Final

from gunicorn import util
from gunicorn.http.body import ChunkedReader
from gunicorn.workers.gthread import ThreadWorker

from webapp.environment import envint

# For the header fields, again for the body, and while nothing of the response is taken.
PATIENCE_S: Final = envint("WEB_PATIENCE_S", 60, minimum=1)

_LOOK_EVERY_S: Final = 0.5


def _write_problem(sock: socket.socket, status: int, reason: str, message: str) -> None:
    """What gunicorn itself refuses, before Django sees it, as problem details."""
    body = json.dumps({"type": "about:blank", "title": reason, "status": status, "detail": message}).encode()
    head = (
        f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: application/problem+json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    util.write_nonblock(sock, head.encode("latin-1") + body)


util.write_error = _write_problem  # there is no other place to say it; gunicorn would write a page of HTML


class PatientWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn comes without types
    """Ends the reading of a request after `PATIENCE_S`, and the writing when for as long nobody takes anything.

    What is computed may take as long as it takes.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._coming: dict[Any, tuple[float, Any]] = {}  # by connection: since when, and the request if it has begun
        self._looked_at = 0.0

    def handle(self, conn: Any) -> Any:
        """One request of a connection, in a thread."""
        self._coming[conn] = (time.monotonic(), None)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # of Linux
            with suppress(OSError):  # it is a Unix socket, or has just gone
                conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PATIENCE_S * 1000)
        try:
            return super().handle(conn)
        finally:
            self._coming.pop(conn, None)

    def handle_request(self, req: Any, conn: Any) -> Any:
        """The same, when its header fields are there."""
        self._coming[conn] = (time.monotonic(), req)
        try:
            return super().handle_request(req, conn)
        except TimeoutError as error:  # of the connection: whoever asked is as good as gone
            raise BrokenPipeError(errno.EPIPE, "Nobody takes the response") from error

    def murder_pending(self) -> None:
        """Called by the thread that waits for connections, every second and behind each of its events."""
        super().murder_pending()
        now = time.monotonic()
        if now < self._looked_at + _LOOK_EVERY_S:  # of many connections there are many events
            return
        self._looked_at, latest = now, now - PATIENCE_S
        for conn, (since, request) in list(self._coming.items()):
            if since < latest and not _is_whole(request):
                self._coming.pop(conn, None)
                with suppress(OSError):  # it has just gone
                    conn.sock.shutdown(socket.SHUT_RD)  # whoever reads finds the end


def _is_whole(request: Any) -> bool:
    """Whether nothing of the body is to come."""
    if request is None:
        return False
    reader = request.body.reader
    return reader.parser is None if isinstance(reader, ChunkedReader) else not getattr(reader, "length", 0)
