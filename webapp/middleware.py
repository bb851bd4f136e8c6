"""What happens to every request."""

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


class BrowserPolicyMiddleware:
    """Says on every response what browsers may do with it, beyond what Django's and django-csp's middleware say.

    No page uses a device of whoever looks at it, and no other site embeds anything from here. (Pages of CORS_ORIGINS
    ask in CORS mode, to which the latter does not apply.)
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        response["Permissions-Policy"] = _NO_DEVICES
        response["Cross-Origin-Resource-Policy"] = "same-origin"
        if not response.has_header("Cache-Control"):
            # Most pages name whoever looks at them; what may be kept longer, or must not be at all, says so itself.
            patch_cache_control(response, private=True, no_cache=True)
        return response


def _forget(**_signal: Any) -> None:
    set_request_id("")


# Not when the middleware is left: a response that is streamed is still being made then.
request_finished.connect(_forget, dispatch_uid="request-id")
