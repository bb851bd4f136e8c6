"""The header in which a proxy passes a name (LOGIN_HEADER), at the real server: what only looks like it is not it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from benchmarks.web import server
from tests import forked
from tests.migrated import migrated
from workers.guards import HOST

GIVEN = {"PROXIES": "1", "LOGIN_HEADER": "X-Forwarded-User", "REALM_PUBLIC": "0", "SECRET_KEY": ""}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that believes a proxy; nothing is deployed there."""
    data = tmp_path_factory.mktemp("proxied")
    given = {**os.environ, "REALM_DATA": str(data), "DATABASE_URL": migrated(data / "db.sqlite3"), **GIVEN}
    with server(given, data / "web.log", forked.start, ready="/healthz") as (_process, port):
        yield port


def sent(port: int, *fields: bytes) -> tuple[int, bytes]:
    """Status and whole response to a request with these header fields, as they are."""
    head = [b"GET /account/ HTTP/1.1", b"Host: localhost", b"Connection: close", *fields]
    with socket.create_connection((HOST, port), timeout=30) as connection:
        connection.sendall(b"\r\n".join(head) + b"\r\n\r\n")
        with connection.makefile("rb") as response:
            said = response.read()
    return int(said.split()[1]), said


def test_only_the_header_itself_names_a_person(port: int) -> None:
    status, page = sent(port, b"X-Forwarded-User: ada@example.org")
    assert status == 200 and b"<h1>ada@example.org</h1>" in page
    assert sent(port, "x-forwarded-user: Zoë".encode())[0] == 200  # names are UTF-8
    for field in (
        b"X_Forwarded_User: admin",
        b"X-Forwarded_User: admin",
        b"HTTP_X_FORWARDED_USER: admin",
        b"Remote-User: admin",
        b"REMOTE_USER: admin",
        b"X-Forwarded-User:",
        b"X-Forwarded-User: \t ",
    ):
        status, page = sent(port, field)
        assert status == 302 and b"location: /accounts/login/?next=/account/" in page.lower(), field
    # A client's own field beside that of the proxy changes nothing.
    status, page = sent(port, b"X_Forwarded_User: admin", b"X-Forwarded-User: ada")
    assert status == 200 and b"<h1>ada</h1>" in page


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ((b"X-Forwarded-User: admin", b"X-Forwarded-User: ada"), 403),  # of a proxy that adds instead of replacing
        ((b"X-Forwarded-User: " + b"a" * 200,), 403),
        ((b"X-Forwarded-User: ad\xffmin",), 403),
        ((b"X-Forwarded-User: ad\x00min",), 400),
        ((b"X-Forwarded-User : admin",), 400),
        ((b"X-Forwarded-User: ada", b" admin"), 400),  # a folded line
    ],
)
def test_what_is_no_name_is_refused(port: int, fields: tuple[bytes, ...], status: int) -> None:
    assert sent(port, *fields)[0] == status
