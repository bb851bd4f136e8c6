"""Middleware for every request."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

from django.core.signals import request_finished
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_cache_control

from webapp.request_id import set_request_id

REQUEST_ID: Final = "X-Request-ID"

_NO_DEVICES: Final = ", ".join(
    f"{feature}=()"
    for feature in (
        *("accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "magnetometer", "microphone"),
        *("midi", "payment", "publickey-credentials-get", "screen-wake-lock", "usb", "xr-spatial-tracking"),
    )
)
_HARMLESS: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")


class RequestIdMiddleware:
    """Gives every request an id: in the response's `X-Request-ID`, in the log and in problem details.

    A client may choose the id if it is harmless in a log. This middleware is the outermost, so that all messages have
    the id.
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


class BrowserPolicyMiddleware:
    """Sets headers that restrict browsers, beyond those of Django's and django-csp's middleware.

    No page uses devices, and no other site embeds content from here. (Pages of CORS_ORIGINS use CORS mode, to which the
    latter does not apply.)
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        response["Permissions-Policy"] = _NO_DEVICES
        response["Cross-Origin-Resource-Policy"] = "same-origin"
        if not response.has_header("Cache-Control"):
            # Most pages have the visitor's name; views of what may be cached longer, or not at all, set the header
            # themselves.
            patch_cache_control(response, private=True, no_cache=True)
        return response


def _forget(**_signal: Any) -> None:
    set_request_id("")


# Not when the middleware returns: a streamed response is still being produced then.
request_finished.connect(_forget, dispatch_uid="request-id")
