"""Responses to failed requests: a page or, below /api/ and at /mcp, problem details."""

from __future__ import annotations

import sys

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from webapp.rest.problems import CONTENT_TYPE, DATABASE_ERRORS, describe, problem_page


def server_error(request: HttpRequest) -> HttpResponse:
    """A bug, which is in the log, or a database that does not answer, wherever this was noticed.

    The page needs neither database nor session.
    """
    error = sys.exception()
    unavailable = describe(error) if isinstance(error, DATABASE_ERRORS) else None
    if _wants_problem(request):
        if unavailable is not None:
            return JsonResponse(unavailable.body, status=503, headers=unavailable.headers, content_type=CONTENT_TYPE)
        return problem_page(500, "Something went wrong here; it is in the log.")
    if unavailable is not None:
        context = {"reason": unavailable.body["detail"]}
        return HttpResponse(render_to_string("500.html", context), status=503, headers=unavailable.headers)
    return render(None, "500.html", status=500)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A request that Django refuses to read. The page uses nothing of it, because its Host may be wrong."""
    if isinstance(exception, DisallowedHost):
        reason = "The Host header is not in ALLOWED_HOSTS."
    else:
        reason = "The request cannot be read."
    if _wants_problem(request):
        return problem_page(400, reason)
    return HttpResponse(render_to_string("400.html", {"reason": reason}), status=400)


def refusal(request: HttpRequest, status: int, reason: str) -> HttpResponse:
    """A request whose body is refused."""
    if _wants_problem(request):
        return problem_page(status, reason)
    return render(request, "refused.html", {"reason": reason}, status=status)


def login_refused(request: HttpRequest, reason: str) -> HttpResponse:
    """A person whom the proxy in front has logged in, and who has no account here or a closed one."""
    if _wants_problem(request):
        return problem_page(403, reason)
    response = render(request, "login_refused.html", {"reason": reason}, status=403)
    response["Cache-Control"] = "no-store"
    return response


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that was not sent from this site, or whose session has ended."""
    if _wants_problem(request):
        return problem_page(403, "The CSRF token is missing or wrong.")
    return render(request, "manage/csrf_failure.html", {"reason": reason}, status=403)


def _wants_problem(request: HttpRequest) -> bool:
    return request.path.startswith("/api/") or request.path == "/mcp"
