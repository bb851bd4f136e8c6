"""The header fields of responses, as the API's description declares them (`operation.py`).

What any server sends is not among them: the type and length of the body, caching, policies for browsers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

_REFUSALS: Final = (409, 429, 503)


def header(
    name: str, about: str, *statuses: int, type_: Any = OpenApiTypes.STR, required: bool = False
) -> OpenApiParameter:
    """A header field of the responses of some statuses; without statuses, of all. required: each response has it."""
    codes: Any = [str(status) for status in statuses] or True
    return OpenApiParameter(name, type_, OpenApiParameter.HEADER, required=required, description=about, response=codes)


SERVER_TIMING: Final = header("Server-Timing", "Time of storing and rendering the answers, in milliseconds.", 200, 201)
CONTENT_DISPOSITION: Final = header("Content-Disposition", "The name under which to save it.", 200, required=True)


def sent_headers(
    parameters: Sequence[OpenApiParameter], given: Collection[int], problems: Collection[int]
) -> Iterator[OpenApiParameter]:
    """The header fields that follow from an operation's parameters and the statuses of its responses.

    given: statuses of what it gives. problems: of its problems.
    """
    yield header("X-Request-ID", "The request's id, which the server's log has, too.", required=True)
    if 304 in given:
        yield header("ETag", "The version of what is given, for `If-None-Match`.", 200, 304)
    if 201 in given:
        about = "Address of what was made; of several documents there is none."
        yield header("Location", about, *({200, 201} & set(given)), type_=OpenApiTypes.URI)
    if any(one.name == "Idempotency-Key" for one in parameters):
        about = "`true`: an earlier request with this key was carried out."
        yield header("Idempotency-Replayed", about, *given)
    if 429 in problems:
        yield header("RateLimit-Policy", "How many requests are allowed (`q`) in how many seconds (`w`).")
        yield header("RateLimit", "How many of these are left (`r`), and for how many seconds (`t`).")
    if refused := [status for status in _REFUSALS if status in problems]:
        about = "Seconds after which to come back; with 409, if that helps."
        yield header("Retry-After", about, *refused, type_=OpenApiTypes.INT)
    if 401 in problems:
        yield header("WWW-Authenticate", "How to authenticate.", 401)
