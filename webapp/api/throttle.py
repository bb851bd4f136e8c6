"""The limit on questions, as REST framework asks for it."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from webapp.services.limits import seconds_to_wait


class AskThrottle(BaseThrottle):
    """Counts questions of page and API together; see services.limits."""

    def __init__(self) -> None:
        self._wait_s: int | None = None

    def allow_request(self, request: Request, _view: APIView) -> bool:
        """Count this request, and say whether it may go on."""
        self._wait_s = seconds_to_wait(request)
        return self._wait_s is None

    def wait(self) -> float | None:
        """Seconds until the next is allowed."""
        return self._wait_s
