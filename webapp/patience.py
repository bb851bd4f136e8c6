"""gunicorn's threaded worker with timeouts for slow requests and slow readers.

gunicorn itself keeps a thread for every client that sends slowly or does not read its response; as many of these as
there are threads would block everybody else.
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
from gunicorn.workers import gthread
from gunicorn.workers.gthread import TConn, ThreadWorker

from webapp.environment import envint

# For the header fields, again for the body, and while the client reads nothing of the response.
PATIENCE_S: Final = envint("WEB_PATIENCE_S", 60, minimum=1)
# A body that comes faster may take longer: a file of 512 MB takes minutes on most lines. Without an account a body has
# at most 1 MB, so this lends nobody a thread for long.
SLOWEST_BYTES_S: Final = 64 << 10

_LOOK_EVERY_S: Final = 0.5
_LINGER_S: Final = 2.0
_PIECE: Final = 1 << 16  # bytes


def _write_problem(sock: socket.socket, status: int, reason: str, message: str) -> None:
    """Writes gunicorn's own refusals, made before Django sees the request, as problem details."""
    body = json.dumps({"type": "about:blank", "title": reason, "status": status, "detail": message}).encode()
    head = (
        f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: application/problem+json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    util.write_nonblock(sock, head.encode("latin-1") + body)


util.write_error = _write_problem  # gunicorn has no setting for this; it would write an HTML page


class _Connection(TConn):  # type: ignore[misc]  # gunicorn has no types
    """Closed at once. gunicorn would first wait for the client for up to two seconds, in the one thread that accepts
    connections; here the thread that served the request has waited (`_linger`)."""

    def close(self, graceful: bool = False) -> None:
        """Close the socket. graceful: gunicorn's, no matter here."""
        super().close()


gthread.TConn = _Connection  # it has no setting for this, either


def _linger(sock: Any) -> None:
    """Tell the client that nothing more follows, and discard what it is still sending, for a while.

    A socket that is closed with unread data resets the connection, and the client or proxy may lose the response.
    """
    with suppress(OSError):  # closed, or the time is over
        sock.shutdown(socket.SHUT_WR)
        until = time.monotonic() + _LINGER_S
        while (left_s := until - time.monotonic()) > 0:
            sock.settimeout(left_s)
            if not sock.recv(_PIECE):
                return


class PatientWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Stops reading a request after `PATIENCE_S`, a body later where it comes fast enough, and writing when the client
    has read nothing for as long.

    The computation in between has no limit.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # By connection: start time, and once the header fields are there the request and its body's length.
        self._coming: dict[Any, tuple[float, Any, int]] = {}
        self._looked_at = 0.0

    def handle(self, conn: Any) -> Any:
        """Serve one request of a connection, in a thread."""
        self._coming[conn] = (time.monotonic(), None, 0)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux only
            with suppress(OSError):  # a Unix socket, or just closed
                conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PATIENCE_S * 1000)
        try:
            kept = super().handle(conn)
        finally:
            self._coming.pop(conn, None)
        if not kept:
            _linger(conn.sock)
        return kept

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Serve the request after its header fields were read."""
        self._coming[conn] = (time.monotonic(), req, _missing_bytes(req))
        try:
            return super().handle_request(req, conn)
        except TimeoutError as error:  # of the connection: the client is treated as gone
            raise BrokenPipeError(errno.EPIPE, "The client does not read the response") from error

    def murder_pending(self) -> None:
        """Called by the thread that accepts connections, every second and after each of its events."""
        super().murder_pending()
        now = time.monotonic()
        if now < self._looked_at + _LOOK_EVERY_S:  # many connections cause many events
            return
        self._looked_at, latest = now, now - PATIENCE_S
        for conn, (since, request, declared) in list(self._coming.items()):
            if since < latest and not _is_whole(request) and not _is_fast(now - since - PATIENCE_S, request, declared):
                self._coming.pop(conn, None)
                with suppress(OSError):  # just closed
                    conn.sock.shutdown(socket.SHUT_RD)  # the reading thread sees the end of the stream


def _missing_bytes(request: Any) -> int:
    """Of a body with a declared length, what was not received yet; otherwise 0."""
    return int(getattr(request.body.reader, "length", 0))


def _is_fast(over_s: float, request: Any, declared: int) -> bool:
    """Whether a body has brought enough to go on for `over_s` beyond the usual time."""
    return request is not None and declared - _missing_bytes(request) > over_s * SLOWEST_BYTES_S


def _is_whole(request: Any) -> bool:
    """Whether the whole body was received."""
    if request is None:
        return False
    reader = request.body.reader
    return reader.parser is None if isinstance(reader, ChunkedReader) else not getattr(reader, "length", 0)
