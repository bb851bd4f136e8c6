"""The rate limits, as throttles of REST framework."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from webapp.access import limits


class _LimitThrottle(BaseThrottle):
    _wait_s: int | None = None

    def wait(self) -> float | None:
        """Seconds until the next request is allowed."""
        return self._wait_s


class AskThrottle(_LimitThrottle):
    """Counts questions of page, API and MCP together; see access.limits."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Count this request; whether it is allowed. The response's headers report what is left of the limit."""
        allowance = limits.count(request)
        if allowance is None:
            return True
        view.headers = {**view.headers, **allowance.headers()}
        self._wait_s = allowance.reset_s
        return allowance.granted == 1


class EditThrottle(_LimitThrottle):
    """Counts edits of the corpus; see access.limits."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Count this request, unless it only reads; whether it is allowed."""
        allowance = None if request.method == "GET" else limits.count_edit(request)
        self._wait_s = None if allowance is None else allowance.reset_s
        return allowance is None or allowance.granted == 1
