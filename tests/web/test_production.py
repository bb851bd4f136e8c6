"""A start for others: what it refuses, each with a sentence, and how the programs behave that were let start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPMessage, HTTPSConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from benchmarks.web import free_port, server
from tests import forked
from tests.migrated import migrated
from tests.waiting import wait_until
from tests.web.proxy import LARGEST_BYTES, NAMES, TRUSTING, proxy, tried_in_vain
from tests.web.test_headers import check
from workers.guards import HOST
from workers.services import web

TOP = Path(__file__).resolve().parents[2]
PRODUCTION = {
    "HTTPS": "on",
    "PROXIES": "1",
    "REALM_PUBLIC": "1",
    "ALLOWED_HOSTS": "localhost,127.0.0.1",
    "SECRET_KEY": "",
}
MANAGE = (sys.executable, "-m", "django")
GOOD_KEY = "".join(chr(ord("a") + number % 26) for number in range(50))


def environment(data: Path, **changed: str) -> dict[str, str]:
    """That of a server in production, with one thing or another changed."""
    surroundings = {
        name: value for name, value in os.environ.items() if name != "DJANGO_ALLOW_ASYNC_UNSAFE"
    }  # Playwright's
    return {**surroundings, "REALM_DATA": str(data), "DATABASE_URL": f"sqlite:///{data}/db.sqlite3", **changed}


def refused(command: Sequence[str], given: dict[str, str]) -> str:
    """What a web server says that does not come to listen."""
    status, said = forked.finished(command, given)
    assert status == 1 and "Listening" not in said and "Traceback" not in said, said
    return said


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"SECRET_KEY": "x" * 49}, "SECRET_KEY must be at least 50 random characters"),
        pytest.param({"SECRET_KEY": "ab" * 30}, "SECRET_KEY must be at least 50", marks=pytest.mark.nightly),
        pytest.param({"SECRET_KEY": "django-insecure-" + GOOD_KEY}, "SECRET_KEY must be", marks=pytest.mark.nightly),
        ({"DEBUG": "1"}, "DEBUG must be off"),
        ({"ALLOWED_HOSTS": "qa.example.org,*"}, "ALLOWED_HOSTS must name the site"),
        ({"REALM_PUBLIC": ""}, "REALM_PUBLIC must say"),
        ({"HTTPS": "off"}, "HTTPS must be on where the web server listens beyond this machine"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_web_server_refuses(tmp_path: Path, changed: dict[str, str], says: str) -> None:
    """The real one, told to listen to the network; it never comes to listen."""
    port = free_port()
    command = [word.replace(HOST, "0.0.0.0") for word in web(port).command]
    said = refused(command, environment(tmp_path, **(PRODUCTION | changed)))
    last = said.strip().splitlines()[-1]
    assert last.startswith(f"error: {says}") and last.endswith(".")
    key = changed.get("SECRET_KEY")
    assert key is None or key not in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS", "on"),
        pytest.param("PROXIES", "1", marks=pytest.mark.nightly),
        pytest.param("CSRF_TRUSTED_ORIGINS", "https://qa.example.org", marks=pytest.mark.nightly),
        ("ALLOWED_HOSTS", "localhost,qa.example.org"),
        pytest.param("ALLOWED_HOSTS", "*", marks=pytest.mark.nightly),
    ],
)
def test_a_server_of_this_machine_that_others_reach(tmp_path: Path, name: str, value: str) -> None:
    """The real one, at this machine's own address, but told of what leads others there."""
    last = refused(web(free_port()).command, environment(tmp_path, DEBUG="1", **{name: value})).strip().splitlines()[-1]
    assert last.startswith(f"error: DEBUG must be off on a server that others reach ({name} says so)")


@pytest.mark.parametrize(
    ("password", "told"),
    [pytest.param("Stella", {}, marks=pytest.mark.nightly), ("123456", {"HTTPS": "off", "PROXIES": "2"})],
)
def test_an_admin_whose_password_anybody_guesses_is_refused(
    tmp_path: Path, password: str, told: dict[str, str]
) -> None:
    """It is what `createsuperuser --no-input` takes without a word."""
    given = environment(tmp_path, **(PRODUCTION | told | {"DJANGO_SUPERUSER_PASSWORD": password}))
    migrated(tmp_path / "db.sqlite3")
    forked.run([*MANAGE, "createsuperuser", "--username=Stella", "--email=s@example.org", "--no-input"], given)
    last = refused(web(free_port()).command, given).strip().splitlines()[-1]
    assert last.startswith("error: The password of the admin Stella is easy to guess; set another one with `python ")


def test_a_socket_is_there_for_a_proxy(tmp_path: Path) -> None:
    """Settings that are allowed on this machine alone are refused there, because others come through the proxy."""
    port, place = free_port(), tmp_path / "s"
    command = [word.replace(f"{HOST}:{port}", f"unix:{place}") for word in web(port).command]
    given = environment(tmp_path, DEBUG="1", SECRET_KEY="short", HTTPS="off")
    last = refused(command, given).strip().splitlines()[-1]
    assert not place.exists()
    assert last.startswith("error: HTTPS must be on where the web server listens") and str(place) in last


@pytest.mark.parametrize(
    ("changed", "status"),
    [({}, 0), pytest.param({"SECRET_KEY": GOOD_KEY}, 0, marks=pytest.mark.nightly), ({"SECRET_KEY": "x" * 50}, 1)],
)
def test_djangos_own_check_finds_nothing(tmp_path: Path, changed: dict[str, str], status: int) -> None:
    command = [*MANAGE, "check", "--deploy", "--fail-level=WARNING"]
    checked, said = forked.finished(command, environment(tmp_path, **(PRODUCTION | changed)))
    assert checked == status, said
    assert "Warning" not in said


def test_a_server_for_this_machine_alone_starts_with_debug_and_a_short_key(tmp_path: Path) -> None:
    """What is refused above is allowed where no other machine can connect."""
    given = environment(tmp_path, DEBUG="1", SECRET_KEY="short", ALLOWED_HOSTS="LOCALHOST,qa.localhost,[::1]")
    command = [sys.executable, "-c", "import webapp.settings"]
    assert subprocess.run(command, cwd=TOP, env=given, check=False).returncode == 0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """(the proxy's port, the web server's port) of a site as compose.yaml starts it; nothing is deployed there."""
    data = tmp_path_factory.mktemp("site")
    migrated(data / "db.sqlite3")
    given = environment(data, **PRODUCTION)
    with (
        server(given, data / "web.log", forked.start, ready="/healthz") as (_process, port),
        proxy(data, port) as proxied,
    ):
        yield proxied, port


def ask(port: int, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, HTTPMessage]:
    """Status and headers of the proxy's response, over TLS."""
    connection = HTTPSConnection("localhost", port, timeout=30, context=TRUSTING)
    try:
        # With these, whoever is behind the proxy reads the body before saying anything.
        form = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": f"csrftoken={'a' * 32}"}
        connection.request(method, path, body, form | {"Referer": f"https://localhost:{port}/"} if body else {})
        response = connection.getresponse()
        response.read()
        return response.status, response.headers
    finally:
        connection.close()


def test_pages_through_the_proxy(site: tuple[int, int]) -> None:
    for path, status in (
        ("/accounts/login/", 200),
        ("/account/", 302),
        ("/nowhere/", 404),
        ("/static/css/app.css", 200),
    ):
        answered, headers = ask(site[0], path)
        assert answered == status
        check(headers)
        assert headers["Strict-Transport-Security"] == "max-age=2592000"
        assert headers["Server"] is None
    cookie = ask(site[0], "/accounts/login/")[1]["Set-Cookie"]
    assert "csrftoken=" in cookie and "Secure" in cookie and "SameSite=Lax" in cookie


def test_plain_text_is_led_to_tls(site: tuple[int, int]) -> None:
    """Of the web server itself, without a proxy; health checks are answered without TLS."""
    for path, status in (("/accounts/login/", 301), ("/api/v1/answers", 301), ("/healthz", 200), ("/readyz", 503)):
        connection = HTTPConnection("localhost", site[1], timeout=30)
        connection.request("GET", path)
        response = connection.getresponse()
        assert response.status == status, path
        check(response.headers)
        if status == 301:
            assert response.headers["Location"].startswith("https://localhost")
        connection.close()


def test_the_log_has_the_client_that_the_proxy_saw(site: tuple[int, int], tmp_path: Path) -> None:
    connection = HTTPConnection("localhost", site[1], timeout=30)
    claimed = {"X-Forwarded-For": "198.51.100.1, 192.0.2.7", "X-Request-ID": "seen-once"}
    connection.request("GET", "/healthz", headers=claimed)
    assert connection.getresponse().status == 200
    connection.close()
    log = next(folder for folder in tmp_path.parent.iterdir() if folder.name.startswith("site")) / "web.log"
    wait_until(lambda: "seen-once" in log.read_text())
    (line,) = [line for line in log.read_text().splitlines() if "seen-once" in line]
    assert line.startswith("192.0.2.7 [")


def test_what_is_sent_while_the_web_server_is_started_anew_arrives(tmp_path: Path) -> None:
    """Also what has a body: Caddy up to 2.11.1 sent the head alone once it had tried in vain."""
    port, arrived = free_port(), []

    class Late(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            arrived.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

    with proxy(tmp_path, port, waits=True) as proxied, ThreadPoolExecutor() as asking:
        answers = [asking.submit(ask, proxied, "/api/v1/ask", "POST", body) for body in (b"a", b"b" * LARGEST_BYTES)]
        wait_until(lambda: tried_in_vain(tmp_path) == {1, LARGEST_BYTES})
        assert not any(answer.done() for answer in answers)
        with HTTPServer((HOST, port), Late) as server:
            serving = asking.submit(server.serve_forever, 0.05)
            try:
                assert [answer.result(20)[0] for answer in answers] == [204, 204]
            finally:
                server.shutdown()
            serving.result()
    assert sorted(arrived) == [b"a", b"b" * LARGEST_BYTES]


def test_the_proxy_removes_the_names_that_a_client_claims(tmp_path: Path) -> None:
    """Those of LOGIN_HEADER, in docker/Caddyfile."""
    got: list[str] = []

    class Noting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.extend(self.headers.values())
            self.send_response(204)
            self.end_headers()

    with HTTPServer((HOST, 0), Noting) as server, ThreadPoolExecutor() as serving:
        serving.submit(server.serve_forever, 0.05)
        try:
            with proxy(tmp_path, server.server_port) as proxied:
                connection = HTTPSConnection("localhost", proxied, timeout=30, context=TRUSTING)
                connection.request("GET", "/", headers=NAMES | {"X-Other": "passed"})
                assert connection.getresponse().status == 204
                connection.close()
        finally:
            server.shutdown()
    assert "passed" in got and "admin" not in got


def test_responses_of_the_proxy_itself_have_the_security_headers(site: tuple[int, int], tmp_path: Path) -> None:
    with proxy(tmp_path, free_port()) as alone:  # no web server behind it
        answered = [ask(alone, "/"), ask(site[0], "/accounts/login/", "POST", b"x" * (LARGEST_BYTES + 1))]
    assert [(status, headers["Retry-After"]) for status, headers in answered] == [(502, "5"), (413, None)]
    for _, headers in answered:
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        for name in ("X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy", "Permissions-Policy"):
            assert headers[name]
        assert headers["Strict-Transport-Security"] and headers["Server"] is None
