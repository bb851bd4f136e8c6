"""Responses to failed requests: a page or, below /api/ and at /mcp, problem details; and pages that say a refusal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.defaultfilters import filesizeformat
from django.template.loader import render_to_string
from django.views import defaults

from realm_core.errors import CannotStore, EngineUnavailable
from webapp.access.limits import TooManyQuestions
from webapp.pages.guards import way_back
from webapp.refusals import StateConflict
from webapp.request_id import get_request_id
from webapp.rest.problems import CONTENT_TYPE, DATABASE_ERRORS, describe, not_found, problem_page

log: Final = logging.getLogger(__name__)


def server_error(request: HttpRequest) -> HttpResponse:
    """A bug, which is in the log, or a database that does not answer, wherever this was noticed.

    The page needs neither database nor session.
    """
    error = sys.exception()
    unavailable = describe(error) if isinstance(error, DATABASE_ERRORS) else None
    if wants_problem(request):
        if unavailable is not None:
            return JsonResponse(unavailable.body, status=503, headers=unavailable.headers, content_type=CONTENT_TYPE)
        return problem_page(500, "Something went wrong here; it is in the log.")
    if unavailable is not None:
        context = {"reason": unavailable.body["detail"], "request_id": get_request_id()}
        return HttpResponse(render_to_string("500.html", context), status=503, headers=unavailable.headers)
    return render(None, "500.html", {"request_id": get_request_id()}, status=500)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A request that Django refuses to read. The page uses nothing of it, because its Host may be wrong."""
    if isinstance(exception, RequestDataTooBig) and not wants_problem(request):  # in REST, `describe` says it
        most = filesizeformat(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        return refusal(request, 413, f"What is typed may have at most {most}: upload a longer text as a file.")
    if isinstance(exception, DisallowedHost):
        reason = "The Host header is not in ALLOWED_HOSTS."
    else:
        reason = "The request cannot be read."
    if wants_problem(request):
        return problem_page(400, reason)
    return HttpResponse(render_to_string("400.html", {"reason": reason}), status=400)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An address that does not exist, or something that the viewer may not know of."""
    return not_found(request) if wants_problem(request) else defaults.page_not_found(request, exception)


def refusal(request: HttpRequest, status: int, reason: str) -> HttpResponse:
    """A request whose body is refused."""
    if wants_problem(request):
        return problem_page(status, reason)
    return render(request, "refused.html", {"reason": reason}, status=status)


def login_refused(request: HttpRequest, reason: str) -> HttpResponse:
    """A person whom the proxy in front has logged in, and who has no account here or a closed one."""
    if wants_problem(request):
        return problem_page(403, reason)
    response = render(request, "login_refused.html", {"reason": reason}, status=403)
    response["Cache-Control"] = "no-store"
    return response


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that was not sent from this site, or whose session has ended."""
    if wants_problem(request):
        return problem_page(403, "The CSRF token is missing or wrong.")
    return render(request, "manage/csrf_failure.html", {"reason": reason, "back": way_back(request)}, status=403)


def refused(request: HttpRequest, error: Exception, template: str, context: Mapping[str, Any]) -> HttpResponse:
    """A page that says why something was refused, with the status and the `Retry-After` that fit."""
    if isinstance(error, EngineUnavailable | CannotStore):  # as `describe` does for REST
        log.warning("Not answered: %s", error)
    response = render(request, template, context, status=status_of(error))
    if (wait_s := getattr(error, "retry_after_s", None)) is not None:
        response["Retry-After"] = str(wait_s)
    return response


def status_of(error: Exception) -> int:
    """The status of a page that says a refusal: what a person typed is 422 where a program's request is 400."""
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return status
    return 422


_STATUS: Final[dict[type[Exception], int]] = {
    TooManyQuestions: 429,
    EngineUnavailable: 503,
    CannotStore: 507,
    StateConflict: 409,
}


def wants_problem(request: HttpRequest) -> bool:
    return is_for_programs(request.path)


def is_for_programs(path: str) -> bool:
    """Whether what is at an address is asked for by programs, which read problem details."""
    return path.startswith("/api/") or path == "/mcp"
