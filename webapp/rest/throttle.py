"""The rate limits, as throttles of REST framework."""

from __future__ import annotations

from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from webapp.access import limits


class _LimitThrottle(BaseThrottle):
    _wait_s: int | None = None

    def wait(self) -> float | None:
        """Seconds until the next request is allowed."""
        return self._wait_s

    def allowed(self, allowance: limits.Allowance | None, view: APIView) -> bool:
        """Whether a counted request is allowed. The response's headers report what is left of the limit."""
        if allowance is None:
            return True
        view.headers = {**view.headers, **allowance.headers()}
        self._wait_s = allowance.reset_s
        return allowance.granted == 1


class AskThrottle(_LimitThrottle):
    """Counts questions of page, API and MCP together; see access.limits."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Count this request; whether it is allowed."""
        return self.allowed(limits.count(request), view)


class EditThrottle(_LimitThrottle):
    """Counts edits of the corpus; see access.limits."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Count this request, unless it only reads; whether it is allowed."""
        return request.method in SAFE_METHODS or self.allowed(limits.count_edit(request), view)
