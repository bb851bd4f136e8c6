"""Rate limits: questions per asker, counted in the shared cache for page, API and MCP together; and login attempts per
address.

A fixed window: one counter per asker and period, incremented by the server in one step. If the cache cannot be reached
no request is refused, because answering matters more than counting.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Any, Final

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest
from redis.exceptions import RedisError

from realm_core.errors import RealmError

log = logging.getLogger(__name__)

_CLIENT_BITS: Final = 64  # of an IPv6 address: the smallest network that a provider gives a client
_LOGINS: Final = (100, 1800)  # (attempts that failed, seconds): enough for an office behind one address
_EDITS: Final = (120, 60)  # (edits of the corpus, seconds); programs send many documents per edit
_PERIOD_S: Final = {"s": 1, "sec": 1, "min": 60, "hour": 3600, "day": 86400}


@dataclass(frozen=True)
class Allowance:
    """The state of an asker's limit. what: ask, edit or login. granted: how many of those just counted are allowed."""

    what: str
    limit: int
    period_s: int
    granted: int
    remaining: int
    reset_s: int  # until the period ends

    def headers(self) -> dict[str, str]:
        """The header fields of draft-ietf-httpapi-ratelimit-headers."""
        return {
            "RateLimit-Policy": f'"{self.what}";q={self.limit};w={self.period_s}',
            "RateLimit": f'"{self.what}";r={self.remaining};t={self.reset_s}',
        }


def count(request: HttpRequest, questions: int = 1) -> Allowance | None:
    """Count questions of this asker. None: there is no limit, or the cache cannot be reached."""
    if settings.ASK_RATE == "0":
        return None
    number, _, period = settings.ASK_RATE.partition("/")
    return _counted("ask", asker_name(request), int(number), _PERIOD_S[period], questions)


def count_edit(request: HttpRequest) -> Allowance | None:
    """Count an edit of the corpus by this person. None: the cache cannot be reached."""
    return _counted("edit", asker_name(request), *_EDITS)


def may_log_in(request: HttpRequest) -> bool:
    """Count a login attempt for any name: one address may not try a password with all names."""
    allowance = _counted("login", _hashed(client_address(request)), *_LOGINS)
    return allowance is None or allowance.granted > 0


def logged_in(request: HttpRequest) -> None:
    """Take back the count of an attempt that succeeded: a whole department may log in from one address."""
    _counted("login", _hashed(client_address(request)), *_LOGINS, number=-1)


class TooManyQuestions(RealmError):
    """An asker has reached the limit. retry_after_s: seconds until the period ends."""

    def __init__(self, request: HttpRequest, retry_after_s: int) -> None:
        who = "" if request.user.is_authenticated else ", from you or others at your address"
        super().__init__(f"That was a lot of questions{who}. Ask again in {retry_after_s} seconds.")
        self.retry_after_s = retry_after_s


def count_questions(request: HttpRequest, questions: int = 1) -> int:
    """Count questions of this asker; how many of them are allowed. TooManyQuestions where none is."""
    allowance = count(request, questions)
    if allowance is not None and not allowance.granted:
        raise TooManyQuestions(request, allowance.reset_s)
    return questions if allowance is None else allowance.granted


def asker_name(request: HttpRequest) -> str:
    """An identifier of the asker, at most 24 characters; addresses are hashed."""
    return f"user{request.user.pk}" if request.user.is_authenticated else _hashed(client_address(request))


def client_address(request: HttpRequest) -> str:
    """`forwarded_address` of a request; for IPv6 the first one of the client's network."""
    return _client_network(forwarded_address(request.META))


def forwarded_address(environ: Mapping[str, Any]) -> str:
    """The client's address as the nearest trusted proxy saw it (PROXIES says how many there are).

    Without proxies the header is the client's own claim and is ignored. environ: of WSGI.
    """
    claims = str(environ.get("HTTP_X_FORWARDED_FOR", "")).split(",")
    forwarded = [claim.strip() for claim in claims if claim.strip()]
    if settings.PROXIES and len(forwarded) >= settings.PROXIES:
        return forwarded[-settings.PROXIES]
    return str(environ.get("REMOTE_ADDR", ""))


def _counted(what: str, who: str, limit: int, period_s: int, number: int = 1) -> Allowance | None:
    now = time.time()
    key = f"{what}:{who}:{int(now // period_s)}"
    try:
        try:
            counted = cache.incr(key, number)
        except ValueError:  # the first of this period
            cache.add(key, 0, timeout=period_s + 1)
            counted = cache.incr(key, number)
    except (RedisError, ValueError) as error:  # ValueError: the key expired in between
        log.warning("Rate limits are off, the cache cannot be reached: %s", error)
        return None
    granted = min(number, max(0, limit - (counted - number)))
    return Allowance(what, limit, period_s, granted, max(0, limit - counted), max(1, round(period_s - now % period_s)))


def _hashed(address: str) -> str:
    key = str(settings.SECRET_KEY).encode()[:64]
    return hashlib.blake2b(address.encode(), digest_size=12, key=key).hexdigest()


def _client_network(address: str) -> str:
    """The address; for IPv6 the first one of its network, because a client can use all of these."""
    try:
        ip = ip_address(address)
    except ValueError:  # a socket without an address
        return address
    if isinstance(ip, IPv4Address):
        return str(ip)
    return str(ip.ipv4_mapped or ip_network((int(ip), _CLIENT_BITS), strict=False).network_address)
