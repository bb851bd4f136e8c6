"""docker/nginx.conf, by the machine's own nginx, before two servers that say what was asked of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPMessage, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.web import free_port
from tests.waiting import wait_until
from tests.web.proxy import NAMES, TOP, TRUSTING
from workers.guards import HOST

pytestmark = pytest.mark.skipif(
    not (shutil.which("nginx") and shutil.which("openssl")), reason="this machine lacks nginx or openssl"
)


def handler(status: int) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        """Says the header fields that it got, with `status`."""

        def do_GET(self) -> None:
            said = json.dumps(dict(self.headers)).encode()
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.send_header("Content-Type", "application/json" if self.path.startswith("/api/") else "text/html")
            self.end_headers()
            self.wfile.write(said)

        do_POST = do_GET

        def log_message(self, *_arguments: Any) -> None:
            """Nothing."""

    return Answering


@contextmanager
def answering(status: int) -> Iterator[int]:
    with ThreadingHTTPServer((HOST, 0), handler(status)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def nginx(folder: Path, *behind: int, told: str = "") -> Iterator[int]:
    """nginx as docker/nginx.conf says, but at a free port, with a certificate of its own; yields the port.

    told: what it is told instead of that file.
    """
    port, told = free_port(), told or (TOP / "docker" / "nginx.conf").read_text(encoding="utf-8")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=qa.example.org"]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    for said, here in (
        ("127.0.0.1:8000", f"{HOST}:{behind[0]}"),
        ("127.0.0.1:8001", f"{HOST}:{behind[1]}"),
        ("listen 80;", f"listen {HOST}:{free_port()};"),
        ("listen 443 ", f"listen {HOST}:{port} "),
        ("/etc/ssl/certs/qa.example.org.pem", str(certificate)),
        ("/etc/ssl/private/qa.example.org.key", str(key)),
    ):
        assert said in told
        told = told.replace(said, here)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    main = f"pid {folder}/pid;\ndaemon off;\nerror_log {folder}/error.log;\nevents {{}}\n"
    (folder / "nginx.conf").write_text(f"{main}http {{\naccess_log off;\n{places}{told}}}\n")
    with open(folder / "said", "wb") as said_by_it:
        process = subprocess.Popen(["nginx", "-p", folder, "-c", folder / "nginx.conf"], stderr=said_by_it)
    try:
        wait_until(lambda: ((folder / "pid").exists() and (folder / "pid").stat().st_size > 0) or process.poll())
        assert process.poll() is None, (folder / "said").read_text()
        yield port
    finally:
        process.terminate()
        process.wait(20)


def ask(
    port: int, path: str, body: bytes = b"{}", headers: dict[str, str] | None = None
) -> tuple[int, HTTPMessage, bytes]:
    connection = HTTPSConnection("localhost", port, timeout=30, context=TRUSTING)
    try:
        connection.request("POST", path, body, {"Host": "qa.example.org", **(headers or {})})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def test_a_question_is_passed_to_the_server_that_is_ready(tmp_path: Path) -> None:
    with answering(503) as loading, answering(200) as ready, nginx(tmp_path, loading, ready) as port:
        asked = [ask(port, path)[0] for path in ("/", "/api/v1/ask", "/api/v1/ask/batch", "/mcp") for _ in range(2)]
        edited = {ask(port, "/api/v1/documents")[0] for _ in range(4)}
    assert set(asked) == {200}
    assert edited == {200, 503}  # what changes something is sent once


def test_what_a_client_claims_is_dropped(tmp_path: Path) -> None:
    claimed = {"X-Forwarded-For": "198.51.100.1", "X-Forwarded-Proto": "http", "X-Request-ID": "a b", **NAMES}
    with answering(200) as one, nginx(tmp_path, one, one) as port:
        got = json.loads(ask(port, "/", headers=claimed)[2])
    assert (got["Host"], got["X-Forwarded-For"], got["X-Forwarded-Proto"]) == ("qa.example.org", "127.0.0.1", "https")
    assert len(got["X-Request-ID"]) == 32
    assert "admin" not in got.values()


def test_pages_are_compressed(tmp_path: Path) -> None:
    with answering(200) as one, nginx(tmp_path, one, one) as port:
        pages = [ask(port, path, headers={"Accept-Encoding": "gzip"})[1] for path in ("/history/", "/api/v1/blocks/1")]
    assert [(one["Content-Encoding"], one["Vary"]) for one in pages] == [("gzip", "Accept-Encoding"), (None, None)]


def test_what_nginx_says_itself(tmp_path: Path) -> None:
    with nginx(tmp_path, free_port(), free_port()) as port:
        away = ask(port, "/api/v1/ask")
        large = ask(port, "/api/v1/ask", b"x" * (3 << 20))
    assert (away[0], away[1]["Retry-After"], large[0]) == (502, "5", 413)
    for _, headers, _ in (away, large):
        assert headers["Strict-Transport-Security"] and "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Server"] == "nginx"


def test_single_sign_on_as_the_documents_say(tmp_path: Path) -> None:
    """docs/operations.md, before a stand-in for oauth2-proxy that knows one cookie."""

    class Knowing(handler(202)):  # type: ignore[misc]
        def do_GET(self) -> None:
            known = self.headers["Cookie"] == "login=ada"
            self.send_response(202 if known else 401)
            if known:
                self.send_header("X-Auth-Request-Email", "ada@example.org")
            self.send_header("Content-Length", "0")
            self.end_headers()

    manual = (TOP / "docs" / "operations.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```nginx\n(.*?)^```", manual, re.M | re.S)
    told = (TOP / "docker" / "nginx.conf").read_text(encoding="utf-8")
    for name in ("User", "Groups"):
        line = f'    proxy_set_header X-Forwarded-{name} "";\n'
        assert line in told
        told = told.replace(line, example if name == "User" else "")
    with ThreadingHTTPServer((HOST, 0), Knowing) as login, answering(200) as one:
        thread = threading.Thread(target=login.serve_forever, args=(0.05,))
        thread.start()
        told = told.replace("127.0.0.1:4180", f"{HOST}:{login.server_port}")
        try:
            with nginx(tmp_path, one, one, told=told) as port:
                stranger = ask(port, "/history/", headers=NAMES)
                inside = [
                    json.loads(ask(port, path, headers={**NAMES, "Cookie": "login=ada"})[2])
                    for path in ("/", "/history/", "/manage/documents/")
                ]
                program = [
                    json.loads(ask(port, path, headers=NAMES)[2]) for path in ("/api/v1/ask", "/api/v1/x", "/mcp")
                ]
        finally:
            login.shutdown()
            thread.join()
    led = stranger[1]["Location"].replace(f":{port}", "")
    assert (stranger[0], led) == (302, "https://qa.example.org/oauth2/start?rd=https://qa.example.org/history/")
    assert {got["X-Forwarded-User"] for got in inside} == {"ada@example.org"}
    assert not any("admin" in got.values() for got in (*inside, *program))
