"""Connections that a client leaves open, bodies that are refused or come slowly, and responses that nobody reads."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from benchmarks.web import free_port, request, serving
from workers.guards import HOST

STALLED = 8
THREADS = STALLED + 2
PATIENCE_S = 1
# What is much is more than the buffers of a connection hold.
APPLICATION = """
def application(environ, start_response):
    length = 0
    if environ["PATH_INFO"] == "/much":
        start_response("200 OK", [("Content-Length", str(64 << 20))])
        return (b"x" * (1 << 20) for _ in range(64))
    if environ["PATH_INFO"] == "/read":
        while piece := environ["wsgi.input"].read(1 << 16):
            length += len(piece)
    refused = environ["PATH_INFO"] == "/refuse"
    said = b"too large" if refused else str(length).encode()
    start_response("413 Too Large" if refused else "200 OK", [("Content-Length", str(len(said)))])
    return [said]
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("closing")
    (folder / "simple.py").write_text(APPLICATION)
    port = free_port()
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "REALM_DATA": str(folder),
        "WEB_THREADS": str(THREADS),
        "WEB_PATIENCE_S": str(PATIENCE_S),
    }
    command = [sys.executable, "-m", "gunicorn", "simple:application", "--config=python:webapp.server"]
    command += [f"--bind={HOST}:{port}", "--no-control-socket"]
    with serving(command, port, environment, folder / "web.log"):
        yield port
    assert "Traceback" not in (folder / "web.log").read_text()


def test_clients_that_do_not_close_delay_nobody(port: int) -> None:
    """Each would have stopped the thread that accepts connections for two seconds."""
    with ExitStack() as left_open:
        stalled = [left_open.enter_context(socket.create_connection((HOST, port), timeout=20)) for _ in range(STALLED)]
        for one in stalled:
            one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        began = time.monotonic()
        assert request(port, "GET", "/")[0] == 200
        assert time.monotonic() - began < STALLED


def test_a_refused_body_may_be_sent_to_its_end(port: int) -> None:
    """As proxies do; a connection that was reset meanwhile would lose the refusal."""
    with socket.create_connection((HOST, port), timeout=20) as sender:
        head = f"POST /refuse HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {20 << 20}\r\n\r\n"
        sender.sendall(head.encode() + bytes(20 << 20))
        assert sender.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_body_that_comes_fast_enough_has_time(port: int) -> None:
    pieces, piece = 3 * PATIENCE_S * 5, bytes(1 << 17)
    with socket.create_connection((HOST, port), timeout=20) as sender:
        head = f"POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: {pieces * len(piece)}\r\n\r\n"
        sender.sendall(head.encode())
        for _ in range(pieces):
            sender.sendall(piece)
            time.sleep(0.2)
        assert sender.recv(4096).endswith(str(pieces * len(piece)).encode())


def test_a_body_that_comes_slowly_has_not(port: int) -> None:
    with socket.create_connection((HOST, port), timeout=20) as sender:
        sender.sendall(b"POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        began = time.monotonic()
        sender.settimeout(0.2)
        while time.monotonic() - began < 15:
            sender.sendall(b"x" * 100)
            try:
                assert not sender.recv(4096).endswith(b"1000000")
                break
            except TimeoutError:
                continue
        assert time.monotonic() - began < 15


def test_whoever_takes_nothing_is_left(port: int) -> None:
    """As many as there are threads ask for much and take nothing of it."""
    with ExitStack() as readers:
        for _ in range(THREADS):
            reader = readers.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            reader.connect((HOST, port))
            reader.sendall(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
        began = time.monotonic()
        assert request(port, "GET", "/")[::2] == (200, b"0")
        assert time.monotonic() - began < 20
