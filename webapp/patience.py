"""gunicorn's worker of threads, which does not wait for ever until a request has come whole.

By itself it keeps a thread for whoever has begun to send something, however slowly it comes; as many such senders as
there are threads would shut everybody else out.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Any, Final

from gunicorn.workers.gthread import ThreadWorker

from webapp.environment import envint

PATIENCE_S: Final = envint("WEB_PATIENCE_S", 60, minimum=1)  # for the header fields, and again for the body


class PatientWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn comes without types
    """Ends the reading of a request after `PATIENCE_S`; what is computed or written may take as long as it takes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._coming: dict[Any, tuple[float, Any]] = {}  # by connection: since when, and the request if it has begun

    def handle(self, conn: Any) -> Any:
        """One request of a connection, in a thread."""
        self._coming[conn] = (time.monotonic(), None)
        try:
            return super().handle(conn)
        finally:
            self._coming.pop(conn, None)

    def handle_request(self, req: Any, conn: Any) -> Any:
        """The same, when its header fields are there."""
        self._coming[conn] = (time.monotonic(), req)
        return super().handle_request(req, conn)

    def murder_pending(self) -> None:
        """Called every second by the thread that waits for connections."""
        super().murder_pending()
        latest = time.monotonic() - PATIENCE_S
        for conn, (since, request) in list(self._coming.items()):
            if since < latest and not _is_whole(request):
                self._coming.pop(conn, None)
                with suppress(OSError):  # it has just gone
                    conn.sock.shutdown(socket.SHUT_RD)  # whoever reads finds the end


def _is_whole(request: Any) -> bool:
    """Whether nothing of the body is to come. Of a body without a length nothing is ever read."""
    return request is not None and not getattr(request.body.reader, "length", 0)
