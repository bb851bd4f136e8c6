"""Whoever asks for much and takes nothing of it does not keep the server's threads."""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.web import free_port, request, serving
from workers.guards import HOST

THREADS = 2
# More than the buffers of a connection hold.
APPLICATION = """
def application(environ, start_response):
    much = environ["PATH_INFO"] == "/much"
    start_response("200 OK", [("Content-Length", str(64 << 20 if much else 2))])
    return (b"x" * (1 << 20) for _ in range(64)) if much else [b"ok"]
"""


def test_whoever_takes_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "much.py").write_text(APPLICATION)
    port, log = free_port(), tmp_path / "web.log"
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "REALM_DATA": str(tmp_path),
        "WEB_THREADS": str(THREADS),
        "WEB_PATIENCE_S": "1",
    }
    command = [sys.executable, "-m", "gunicorn", "much:application", "--config=python:webapp.server"]
    command += [f"--bind={HOST}:{port}", "--no-control-socket"]
    with serving(command, port, environment, log), ExitStack() as readers:
        for _ in range(THREADS):
            reader = readers.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            reader.connect((HOST, port))
            reader.sendall(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
        began = time.monotonic()
        assert request(port, "GET", "/little") == (200, b"ok")
        assert time.monotonic() - began < 20
    assert "Traceback" not in log.read_text()
