"""gunicorn's threaded worker with timeouts for slow requests and slow readers, and readable refusals of its own.

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
from urllib.parse import urlsplit

from gunicorn import util
from gunicorn.http.body import ChunkedReader
from gunicorn.http.errors import LimitRequestHeaders, LimitRequestLine
from gunicorn.http.message import Request
from gunicorn.http.parser import RequestParser
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
_BEGINNING: Final = 1 << 10  # bytes of a request that tell whether a browser or a program has sent it
# What a browser can send that gunicorn refuses; a person reads the reason on a page.
_FOR_PERSONS: Final = {
    LimitRequestLine: (
        414,
        "URI Too Long",
        "Its address is too long. If you filled in a form, go back and write less.",
    ),
    LimitRequestHeaders: (
        431,
        "Request Header Fields Too Large",
        "Its header fields are too long. Remove this site’s cookies in your browser, and try again.",
    ),
}


def _write_problem(sock: socket.socket, status: int, reason: str, message: str) -> None:
    """Writes gunicorn's own refusals, made before Django sees the request, as problem details."""
    body = json.dumps({"type": "about:blank", "title": reason, "status": status, "detail": message})
    _write(sock, status, reason, "application/problem+json", body)


def _write(sock: socket.socket, status: int, reason: str, content_type: str, text: str) -> None:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    util.write_nonblock(sock, head.encode("latin-1") + body)


util.write_error = _write_problem  # gunicorn has no setting for this; it would write an HTML page


class _Request(Request):  # type: ignore[misc]  # gunicorn has no types
    """One that tells, when it is refused, whom it is from: gunicorn's errors do not name its address."""

    _beginning = b""

    def read_into(self, unreader: Any, buf: bytearray, stop: bool = False) -> None:
        before = len(buf)
        super().read_into(unreader, buf, stop)
        self._beginning += buf[before : before + _BEGINNING - len(self._beginning)]

    def parse(self, unreader: Any) -> Any:
        try:
            return super().parse(unreader)
        except tuple(_FOR_PERSONS) as error:
            from webapp.pages.errors import is_for_programs  # loads Django, which the parent process must not

            words = self._beginning.split(b" ", 2)
            path = urlsplit(words[1].decode("latin-1")).path if len(words) > 1 else ""
            error.on_page = not is_for_programs(path)
            raise


RequestParser.mesg_class = _Request  # gunicorn has no setting for this


class _Connection(TConn):  # type: ignore[misc]  # gunicorn has no types
    """Closed at once. gunicorn would first wait for the client for up to two seconds, in the one thread that accepts
    connections; here the thread that served the request has waited (`_linger`)."""

    def close(self, graceful: bool = False) -> None:
        """Close the socket. graceful: given by gunicorn, without effect here."""
        super().close()


gthread.TConn = _Connection  # gunicorn has no setting for this


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

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a request that gunicorn refuses, with a page if a browser sent it."""
        if not getattr(exc, "on_page", False):
            super().handle_error(req, client, addr, exc)
            return
        from django.template.loader import render_to_string

        status, reason, said = _FOR_PERSONS[type(exc)]
        self.log.warning("Invalid request from ip=%s: %s", addr[0] if addr else "", exc)
        with suppress(OSError):  # the client has gone
            _write(client, status, reason, "text/html; charset=utf-8", render_to_string("400.html", {"reason": said}))

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
