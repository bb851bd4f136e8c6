"""Addresses that somebody typed are fetched within limits, and never from a private network."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

import pytest

from tests.waiting import wait_until
from tests.workers.conftest import Workers, make_job, steps
from webapp.documents.fetching import fetched
from webapp.documents.inputs import Address, DocumentInput, File
from webapp.models import Fetch, FetchState
from workers import fetching
from workers.fetching import NotFetched, fetch, fetch_for, is_public


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/loop":
            self.send_response(302)
            self.send_header("Location", "/loop")
            self.end_headers()
        elif self.path == "/inside":
            self.send_response(302)
            self.send_header("Location", "http://169.254.169.254/latest/meta-data")
            self.end_headers()
        elif self.path == "/missing":
            self.send_error(404)
        elif self.path == "/large":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"x" * 100_000)
        elif self.path == "/cut":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"half")
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.end_headers()
            self.wfile.write(b"Turku is a city.")

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"http://turku.example:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()


def here(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


def loopback_only(address: object) -> bool:
    return str(address) == "127.0.0.1"


def test_the_content_of_an_address_is_fetched(server: str) -> None:
    found = fetch(f"{server}/turku.txt", resolve=here, allowed=loopback_only)
    assert found.content == b"Turku is a city." and found.content_type.startswith("text/plain")


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
     "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1",
     "2002:7f00:1::"],
)  # fmt: skip
def test_a_private_address_is_refused(address: str, server: str) -> None:
    assert not is_public(ip_address(address))
    with pytest.raises(NotFetched, match="is not of the public internet"):
        fetch(server, resolve=lambda _host, _port: ["93.184.215.14", address])


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_a_public_address_is_allowed(address: str) -> None:
    assert is_public(ip_address(address))


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(server: str) -> None:
    asked: list[str] = []

    def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    fetch(server, resolve=resolve, allowed=loopback_only)
    assert asked == ["turku.example"]  # once; a second answer could be another


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/inside", "169.254.169.254 is not of the public internet, and no other"),
        ("/loop", "redirects more than 5 times"),
        ("/missing", "status 404"),
        ("/large", "more than 0 MiB"),
        ("/cut", "broke off|failed"),
    ],
)
def test_what_is_not_fetched(path: str, says: str, server: str) -> None:
    def resolve(host: str, _port: int) -> list[str]:
        return ["127.0.0.1" if host == "turku.example" else host]

    with pytest.raises(NotFetched, match=says):
        fetch(server + path, resolve=resolve, allowed=loopback_only, largest_bytes=50_000)


@pytest.mark.parametrize(
    "url", ["ftp://x.example/", "file:///etc/passwd", "http://", "http://u:p@x.example/", "http://x:99999/"]
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(NotFetched):
        fetch(url, resolve=here, allowed=loopback_only)


def test_a_slow_server_is_given_up(server: str) -> None:
    with pytest.raises(NotFetched, match="too long"):
        fetch(server, resolve=here, allowed=loopback_only, deadline_s=0)


@pytest.mark.django_db
def test_a_row_says_how_it_went(server: str) -> None:
    row = Fetch.objects.create(url=f"{server}/turku.txt")
    fetch_for(str(row.pk), resolve=here, allowed=loopback_only)
    row.refresh_from_db()
    path = fetching.fetched_dir() / str(row.pk)
    assert row.state == FetchState.FETCHED and path.read_bytes() == b"Turku is a city."
    path.unlink()
    private = Fetch.objects.create(url=server)
    fetch_for(str(private.pk), resolve=here)
    private.refresh_from_db()
    assert private.state == FetchState.FAILED and "127.0.0.1" in private.reason


def test_an_address_is_fetched_while_jobs_take_every_slot(server: str, workers: Workers) -> None:
    busy = [make_job(steps=10_000) for _ in range(2)]
    workers.worker(slots="2")  # which sends what waits when it begins
    workers.fetcher()
    wait_until(lambda: all(steps(job) for job in busy))
    addresses = [f"{server.replace('turku.example', '127.0.0.1')}/{number}.txt" for number in range(9)]
    found = fetched([DocumentInput(Address(address), address) for address in addresses])
    assert [one.source for one in found] == [
        File(b"Turku is a city.", f"{number}.txt", "text/plain; charset=utf-8") for number in range(9)
    ]
    assert not Fetch.objects.exists()
