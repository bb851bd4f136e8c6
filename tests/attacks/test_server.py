"""The real server: requests that never come whole, bodies without end, and what its log and pages do not tell."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import time
import urllib.parse
from collections.abc import Iterator

import httpx
import pytest

from tests.attacks.contract import FEW_PHASES, run
from tests.served import Served


@pytest.fixture
def connection(site: Served) -> Iterator[http.client.HTTPConnection]:
    address = urllib.parse.urlsplit(site.address)
    opened = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
    yield opened
    opened.close()


def raw(site: Served, request: bytes) -> socket.socket:
    address = urllib.parse.urlsplit(site.address)
    opened = socket.create_connection((str(address.hostname), address.port), timeout=20)
    opened.sendall(request)
    return opened


FORM = b"Host: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"


@pytest.mark.parametrize(
    "begun",
    [
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n",
        b"POST / HTTP/1.1\r\n" + FORM + b"Content-Length: 40\r\n\r\n--x",
    ],
    ids=["header fields", "body"],
)
def test_a_request_that_never_comes_whole_is_ended(begun: bytes, site: Served) -> None:
    with raw(site, begun) as slow:
        began = time.monotonic()
        answered = slow.recv(4096)  # an error, or the end of the connection
        assert not answered or answered.startswith(b"HTTP/1.1 4")
        assert time.monotonic() - began < 15


def test_a_body_without_end_is_refused_at_once(site: Served) -> None:
    for address in (b"/", b"/manage/questions/", b"/api/v1/ask"):
        with raw(
            site, b"POST " + address + b" HTTP/1.1\r\n" + FORM + b"Content-Length: 99999999999\r\n\r\n--x"
        ) as endless:
            assert endless.recv(4096).startswith(b"HTTP/1.1 413")


def answer_of(site: Served, request: bytes) -> tuple[int, str, bytes]:
    """(status, content type, body) of one request sent as it is."""
    with raw(site, request) as opened:
        response = http.client.HTTPResponse(opened)
        response.begin()
        return response.status, response.headers.get_content_type(), response.read()


CHUNKED = b"Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"


def chunks(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in [*pieces, b""])


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_body_in_chunks_is_read(site: Served, size: int) -> None:
    asked = b"POST /api/v1/ask HTTP/1.1\r\n" + CHUNKED + b"\r\n"
    status, _, body = answer_of(site, asked + chunks(b'{"question": "Where is the Nile?", "k": 3}', size))
    assert status == 201 and json.loads(body)["question"] == "Where is the Nile?"
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    told = b"POST /mcp HTTP/1.1\r\nAccept: application/json, text/event-stream\r\n" + CHUNKED + b"\r\n"
    status, _, body = answer_of(site, told + chunks(ping, size))
    assert (status, json.loads(body)["id"]) == (200, 1)


def test_of_the_transfer_codings_only_chunked_is_read(site: Served) -> None:
    body = chunks(b'{"question": "Where is the Nile?"}', 9)
    for codings, expected in ((b"Chunked", 201), (b"identity, chunked", 201), (b"gzip, chunked", 415)):
        head = CHUNKED.replace(b"chunked", codings)
        status, kind, _ = answer_of(site, b"POST /api/v1/ask HTTP/1.1\r\n" + head + b"\r\n" + body)
        assert (codings, status) == (codings, expected)
        assert kind == ("application/json" if expected == 201 else "application/problem+json")


@pytest.mark.parametrize("path", ["/api/v1/ask", "/mcp"])
def test_ten_megabytes_in_chunks_are_too_large(site: Served, path: str) -> None:
    """The client is still sending when it is refused."""
    sent = httpx.post(site.address + path, content=(bytes(1 << 16) for _ in range(160)))
    assert sent.status_code == 413 and sent.json()["status"] == 413


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (chunks(b" " * (1 << 20) + b"{}", 1 << 16), 413),
        (b"zz\r\nno number\r\n", 400),
        (b"5\r\nabcdefgh\r\n", 400),
        (chunks(b"{not json", 4), 400),
    ],
    ids=["too large", "no length", "longer than it says", "not JSON"],
)
def test_a_bad_body_in_chunks_is_refused(site: Served, body: bytes, expected: int) -> None:
    status, kind, _ = answer_of(site, b"POST /api/v1/ask HTTP/1.1\r\n" + CHUNKED + b"\r\n" + body)
    assert (status, kind) == (expected, "application/problem+json")


def test_chunks_that_stop_coming_are_ended(site: Served) -> None:
    with raw(site, b"POST /api/v1/ask HTTP/1.1\r\n" + CHUNKED + b"\r\n5\r\nab") as slow:
        began = time.monotonic()
        answered = slow.recv(4096)
        assert not answered or answered.startswith(b"HTTP/1.1 4")
        assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    "head",
    [
        b"Host: elsewhere.example\r\nContent-Type: application/json\r\nContent-Length: 2",
        b"Host: localhost\r\nContent-Type: application/json\r\nContent-Type: text/html\r\nContent-Length: 2",
    ],
    ids=["host", "two content types"],
)
def test_a_bad_head_is_answered_with_problem_details(site: Served, head: bytes) -> None:
    status, kind, body = answer_of(site, b"POST /api/v1/ask HTTP/1.1\r\n" + head + b"\r\n\r\n{}")
    assert (status, kind, json.loads(body)["status"]) == (400, "application/problem+json", 400)


@pytest.mark.parametrize(
    ("address", "fields", "status", "said"),
    [
        ("/fill/?sentence=" + "%D8%A7" * 1400, "", 414, "Its address is too long"),
        ("http://localhost/fill/?sentence=" + "x" * 20_000, "", 414, "Its address is too long"),
        ("/", "Cookie: a=" + "b" * 20_000 + "\r\n", 431, "Its header fields are too long"),
        ("/api/v1/answers?q=" + "x" * 20_000, "", 414, ""),
        ("/mcp?q=" + "x" * 20_000, "", 414, ""),
        ("/api/v1/answers", "Cookie: a=" + "b" * 20_000 + "\r\n", 431, ""),
    ],
)
def test_what_is_too_long_is_said_on_a_page_or_in_problem_details(
    site: Served, address: str, fields: str, status: int, said: str
) -> None:
    request = f"GET {address} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"
    got, kind, body = answer_of(site, request.encode())
    assert (got, kind) == (status, "text/html" if said else "application/problem+json")
    assert said in body.decode() if said else json.loads(body)["status"] == status


def test_a_long_sentence_of_letters_that_take_six_characters_each_is_no_long_address(site: Served) -> None:
    status, kind, _ = answer_of(
        site, b"GET /fill/?sentence=" + b"%D8%A7" * 1200 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    assert (status, kind) == (422, "text/html")  # it has more than 1,000 characters


def test_secrets_stay_out_of_the_log_and_the_pages(site: Served, connection: http.client.HTTPConnection) -> None:
    """A session: log in, wrong and right, make a token, use it in the right and in wrong places, log out."""
    cookies: dict[str, str] = {}
    pages: list[str] = []

    def send(method: str, path: str, form: dict[str, str] | None = None, **headers: str) -> str:
        body = urllib.parse.urlencode(form) if form else None
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()), **headers}
        if form:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        for name, value in response.getheaders():
            if name == "Set-Cookie":
                key, _, rest = value.partition("=")
                cookies[key] = rest.partition(";")[0]
        pages.append(response.read().decode())
        return pages[-1]

    def posted(page: str, path: str, form: dict[str, str]) -> str:
        (field,) = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', send("GET", page))) or {""}
        return send("POST", path, form | {"csrfmiddlewaretoken": field})

    login = "/accounts/login/"
    posted(login, login, {"username": "asker", "password": "not-my-password-7"})
    posted(login, login, {"username": "asker", "password": "asker"})
    assert "sessionid" in cookies
    shown = posted("/history/", "/account/tokens/", {"name": "a program", "scopes": "ask"})
    (token,) = re.findall(r"realm_[\w-]{43}", shown)
    pages.remove(shown)  # the one that shows it
    send("GET", "/account/")
    send("GET", "/api/v1/answers", Authorization=f"Bearer {token}")
    send("GET", "/api/v1/answers", Authorization=f"Bearer {token}x")
    send("GET", "/nothing/here", Authorization=f"Basic {token}")
    secrets = [token, site.admin, site.asker, "not-my-password-7", cookies["sessionid"]]
    secrets.append(os.environ["SECRET_KEY"])
    posted("/account/", "/accounts/logout/", {"x": "y"})
    log = site.log.read_text()
    assert '"path": "/account/tokens/"' in log
    for secret in secrets:
        assert secret not in log
        assert not [page for page in pages if secret in page]


@pytest.mark.nightly  # tests/web/test_api_contract.py sends the same to the views
@pytest.mark.timeout(600)
def test_whatever_is_sent_the_description_holds(site: Served) -> None:
    """A small run; `python -m tests.attacks.contract` is the long one."""
    outcomes = run(site, 240, phases=FEW_PHASES, examples=1)
    for outcome in outcomes:
        assert not outcome.complaints, outcome.complaints
        assert outcome.requests >= 80
        assert max(outcome.statuses) < 500
