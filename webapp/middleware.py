"""What happens to every request."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

from django.core.signals import request_finished
from django.http import HttpRequest, HttpResponse

from webapp.request_id import set_request_id

REQUEST_ID: Final = "X-Request-ID"

_HARMLESS: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")


class RequestIdMiddleware:
    """Gives every request a name: the same in its answer's `X-Request-ID`, in the log and in problem details.

    A client may choose it, as long as it can do no harm in a log. This middleware is the outermost, so that whatever
    happens is told with the id.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get(REQUEST_ID, "")
        request_id = given if _HARMLESS.fullmatch(given) else uuid4().hex
        set_request_id(request_id)
        response = self._get_response(request)
        response[REQUEST_ID] = request_id
        return response


def _forget(**_signal: Any) -> None:
    set_request_id("")


# Not when the middleware is left: a response that is streamed is still being made then.
request_finished.connect(_forget, dispatch_uid="request-id")
