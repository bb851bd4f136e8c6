"""Fetches addresses that people typed: bounded in size, time and redirects, and never from a private network.

A name is resolved once, and the connection goes to that address after it has been checked, so DNS rebinding has no
effect. Each redirect is checked in the same way. Proxies of the environment are not used, because they would resolve
the name themselves.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from realm_core.errors import RealmError
from realm_core.files import disk_errors
from webapp.models import Fetch, FetchState
from webapp.storage.places import fetched_dir

LARGEST_BYTES: Final = 32 << 20
DEADLINE_S: Final = 20.0  # for all redirects and the body together
MOST_REDIRECTS: Final = 5
_SILENCE_S: Final = 8.0  # between two pieces
_PIECE_BYTES: Final = 1 << 16
_REDIRECTS: Final = {301, 302, 303, 307, 308}
_PORTS: Final = {"http": 80, "https": 443}
_HEADERS: Final = {
    "User-Agent": "realm-qa (documents that an operator adds)",
    "Accept": "text/html, application/pdf, text/plain, text/markdown, */*;q=0.5",
    "Accept-Encoding": "identity",
    "Connection": "close",
}

Resolve = Callable[[str, int], Sequence[str]]  # returns the addresses of a host, as text
Allowed = Callable[[IPv4Address | IPv6Address], bool]


@dataclass(frozen=True)
class Fetched:
    """A response. url: the last one, after all redirects."""

    content: bytes
    content_type: str
    url: str


class NotFetched(RealmError):
    """Why an address cannot be fetched, as a continuation of its name."""


def resolved(host: str, port: int) -> list[str]:
    """The addresses of a host, by the system's resolver."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotFetched(f"the host {host} is not known.") from None
    return [str(address[0]) for *_, address in found]


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is on the internet, and not in a private, loopback, link-local or other special network."""
    inner = None
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if int(address) >> 32 == 0x0064FF9B << 64:  # NAT64 (RFC 6052) leads to the address in its last 32 bits
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
    if inner is not None and not is_public(inner):
        return False
    return address.is_global and not address.is_multicast


def fetch(
    url: str,
    *,
    resolve: Resolve = resolved,
    allowed: Allowed = is_public,
    largest_bytes: int = LARGEST_BYTES,
    deadline_s: float = DEADLINE_S,
) -> Fetched:
    """The content of an address; `NotFetched` says why there is none."""
    until = time.monotonic() + deadline_s
    for _ in range(MOST_REDIRECTS + 1):
        parts = _checked(url)
        connection = _connect(parts, resolve, allowed, until)
        try:
            connection.request("GET", _target(parts), headers=_HEADERS)
            response = connection.getresponse()
            if response.status in _REDIRECTS:
                location = response.getheader("Location")
                if not location:
                    raise NotFetched(f"it redirects (status {response.status}) without saying where.")
                url = urljoin(url, location)
                continue
            if response.status != 200:
                raise NotFetched(f"the server answers with the status {response.status}.")
            content = _body(response, connection, until, largest_bytes)
            return Fetched(content, response.getheader("Content-Type", ""), url)
        except TimeoutError:
            raise NotFetched(f"the server did not answer within {deadline_s:g} s.") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotFetched(f"the connection failed ({type(error).__name__}).") from error
        finally:
            connection.close()
    raise NotFetched(f"it redirects more than {MOST_REDIRECTS} times.")


def fetch_for(fetch_id: str, *, resolve: Resolve = resolved, allowed: Allowed = is_public) -> None:
    """Fetch the address of a row: the content into a file, complete or not at all, and the outcome into the row."""
    row = Fetch.objects.filter(pk=fetch_id, state=FetchState.WAITING).first()
    if row is None:
        return
    path = fetched_dir() / str(row.pk)
    try:
        found = fetch(row.url, resolve=resolve, allowed=allowed)
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(found.content)
        outcome = {"state": FetchState.FETCHED, "final_url": found.url, "content_type": found.content_type[:200]}
    except RealmError as error:
        outcome = {"state": FetchState.FAILED, "reason": str(error)}
    if not Fetch.objects.filter(pk=row.pk).update(**outcome):  # the edit has given up
        path.unlink(missing_ok=True)


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise NotFetched("this is no address of the web.") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise NotFetched("only addresses that begin with https:// or http:// are fetched.")
    if parts.username is not None or parts.password is not None:
        raise NotFetched("an address with a user name or a password in it is not fetched.")
    return parts


def _connect(parts: SplitResult, resolve: Resolve, allowed: Allowed, until: float) -> http.client.HTTPConnection:
    """A connection to one of the host's addresses, all of which must be allowed."""
    host, port = str(parts.hostname), parts.port or _PORTS[parts.scheme]
    addresses = resolve(host, port)
    for address in addresses:
        if not allowed(ip_address(address.partition("%")[0])):
            which = f"{host} is" if address == host else f"{host} has the address {address}, which is"
            raise NotFetched(f"{which} not of the public internet, and no other address is fetched.")
    for address in addresses:
        try:
            plain = socket.create_connection((address, port), timeout=_left(until))
        except OSError:
            continue
        if parts.scheme == "https":
            try:
                plain = ssl.create_default_context().wrap_socket(plain, server_hostname=host)
            except (OSError, ValueError) as error:
                plain.close()
                raise NotFetched(f"the secure connection to {host} failed ({type(error).__name__}).") from None
        connection = http.client.HTTPConnection(host, port, timeout=_left(until))
        connection.sock = plain
        return connection
    raise NotFetched(f"{host} cannot be reached.")


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise NotFetched("it took too long.")
    return min(left, _SILENCE_S)


def _target(parts: SplitResult) -> str:
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    return f"{target}?{quote(parts.query, safe='/?%:@!$&()*+,;=~')}" if parts.query else target


def _body(
    response: http.client.HTTPResponse, connection: http.client.HTTPConnection, until: float, largest_bytes: int
) -> bytes:
    pieces, size = [], 0
    while True:
        if connection.sock is not None:
            connection.sock.settimeout(_left(until))
        elif time.monotonic() > until:
            raise NotFetched("it took too long.")
        piece = response.read1(_PIECE_BYTES)
        if not piece:
            break
        size += len(piece)
        if size > largest_bytes:
            raise NotFetched(f"it has more than {largest_bytes >> 20} MiB.")
        pieces.append(piece)
    if response.length:  # bytes that were announced and did not arrive
        raise NotFetched("the connection broke off.")
    return b"".join(pieces)
