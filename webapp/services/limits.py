"""How often one asker may ask, counted in the shared cache for page and API together.

A fixed window: one counter for each asker and period, incremented by the server in one step. When the cache
is out of reach nobody is refused: answering matters more than counting.
"""

from __future__ import annotations

import hashlib
import logging
import time
from typing import Final

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

_PERIOD_S: Final = {"s": 1, "sec": 1, "min": 60, "hour": 3600, "day": 86400}


def seconds_to_wait(request: HttpRequest) -> int | None:
    """Count one question of this asker. None: go ahead; otherwise seconds until the next is allowed."""
    if settings.ASK_RATE == "0":
        return None
    number, _, period = settings.ASK_RATE.partition("/")
    period_s = _PERIOD_S[period]
    now = time.time()
    key = f"ask:{_asker(request)}:{int(now // period_s)}"
    try:
        cache.add(key, 0, timeout=period_s + 1)
        asked = cache.incr(key)
    except (RedisError, ValueError) as error:  # ValueError: the key ran out in between
        log.warning("Questions are not counted, the cache is out of reach: %s", error)
        return None
    return None if asked <= int(number) else max(1, round(period_s - now % period_s))


def _asker(request: HttpRequest) -> str:
    """A name for who asks; addresses are not kept as they are."""
    if request.user.is_authenticated:
        return f"user{request.user.pk}"
    key = str(settings.SECRET_KEY).encode()[:64]
    return hashlib.blake2b(client_address(request).encode(), digest_size=12, key=key).hexdigest()


def client_address(request: HttpRequest) -> str:
    """The client's address as the nearest trusted proxy saw it (PROXIES says how many there are).

    Without proxies the header that names it is the client's own claim, and is not believed.
    """
    claims = str(request.META.get("HTTP_X_FORWARDED_FOR", "")).split(",")
    forwarded = [claim.strip() for claim in claims if claim.strip()]
    if settings.PROXIES and len(forwarded) >= settings.PROXIES:
        return forwarded[-settings.PROXIES]
    return str(request.META.get("REMOTE_ADDR", ""))
