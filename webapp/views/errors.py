"""Answers to requests that fail, as a page or, below /api/, as problem details."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.api.problems import problem_page


def server_error(request: HttpRequest) -> HttpResponse:
    """A bug: the log has it. The page needs neither database nor session, which may be what failed."""
    if request.path.startswith("/api/"):
        return problem_page(500, "Something went wrong here; it is in the log.")
    return render(None, "500.html", status=500)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that did not come from this site, or from before the session ended."""
    if request.path.startswith("/api/"):
        return problem_page(403, "The CSRF token is missing or wrong.")
    return render(request, "manage/csrf_failure.html", {"reason": reason}, status=403)
