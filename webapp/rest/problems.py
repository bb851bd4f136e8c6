"""Errors as problem details (RFC 9457): type, title, status, detail, and the wrong fields.

Every error of the API has this format, from malformed JSON to an address that does not exist.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from realm_core.errors import CannotStore, RealmError
from webapp.refusals import FieldError, InvalidRequest, Missing, PreconditionFailed, StateConflict
from webapp.request_id import get_request_id
from webapp.serving.engine import EngineUnavailable

log = logging.getLogger(__name__)

CONTENT_TYPE: Final = "application/problem+json"
# Raised by Django if the database does not answer, or stops answering during a request.
DATABASE_ERRORS: Final = (OperationalError, InterfaceError)
_DATABASE_RETRY_S: Final = 5
_FULL: Final = "The database's disk is full: what is there can be read, and nothing stored until some of it is free."


def problem(status: int, detail: str, errors: Sequence[FieldError] = (), **members: Any) -> dict[str, Any]:
    """The body of an error response. members: additional members of the problem."""
    body: dict[str, Any] = {
        "type": "about:blank",  # the status is enough
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **members,
    }
    if request_id := get_request_id():
        body["request_id"] = request_id
    if errors:
        body["errors"] = [{"field": error.field, "detail": error.detail} for error in errors]
    return body


@dataclass(frozen=True)
class ErrorDescription:
    """An error as a problem, with the header fields of its response."""

    body: dict[str, Any]
    headers: dict[str, str]


def describe(error: Exception) -> ErrorDescription | None:
    """The problem of an expected error; None for a bug, whose details are not shown."""
    headers: dict[str, str] = {}
    members: dict[str, Any] = {}
    errors: Sequence[FieldError] = ()
    if isinstance(error, InvalidRequest):
        status, detail, errors = 400, "The request is not valid.", error.errors
    elif isinstance(error, EngineUnavailable):
        log.warning("Not answered: %s", error)  # the filter `no_503` keeps Django's own line out of the log
        status, detail = 503, str(error)
        headers["Retry-After"] = str(error.retry_after_s)
    elif isinstance(error, DATABASE_ERRORS):
        log.error("The database does not answer: %s", error)
        status, detail = 503, _FULL if _is_full(error) else "The database does not answer."
        headers["Retry-After"] = str(_DATABASE_RETRY_S)
    elif isinstance(error, StateConflict):
        status = 412 if isinstance(error, PreconditionFailed) else 409
        detail, members = str(error), error.members
        if error.retry_after_s is not None:
            headers["Retry-After"] = str(error.retry_after_s)
    elif isinstance(error, CannotStore):
        log.error("Nothing can be stored: %s", error)  # names a place that is not for everybody
        status, detail = (
            507,
            "The server cannot store this: its disk is full or takes no files. Its log names the place.",
        )
    elif isinstance(error, RealmError):
        status, detail = 404 if isinstance(error, Missing) else 422, str(error)
    elif isinstance(error, RequestDataTooBig):
        status, detail = 413, f"The request may have at most {settings.DATA_UPLOAD_MAX_MEMORY_SIZE:,} bytes."
    elif isinstance(error, Http404):
        status, detail = 404, "There is nothing at this address."
    elif isinstance(error, PermissionDenied):
        status, detail = 403, "You may not do this."
    elif isinstance(error, exceptions.ValidationError):
        status, detail, errors = 400, "The request is not valid.", list(_field_errors(error.detail))
    elif isinstance(error, exceptions.APIException):
        status, detail = error.status_code, str(error.detail)
        wait_s = getattr(error, "wait", None)  # of Throttled
        if wait_s is not None:
            headers["Retry-After"] = str(round(wait_s))
        if challenge := getattr(error, "auth_header", None):  # of a 401
            headers["WWW-Authenticate"] = challenge
    else:
        return None
    return ErrorDescription(problem(status, detail, errors, **members), headers)


def _is_full(error: Exception) -> bool:
    """Whether the database has no room; what SQLite and PostgreSQL say then."""
    return any(words in str(error) for words in ("disk is full", "No space left on device"))


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """REST framework's exception handler. None for a bug: it becomes a 500 (pages.errors), and is logged."""
    described = describe(error)
    if described is None:
        return None
    set_rollback()
    body, headers = described.body, described.headers
    if isinstance(error, exceptions.MethodNotAllowed):
        headers["Allow"] = ", ".join(context["view"].allowed_methods)
    return Response(body, status=body["status"], headers=headers, content_type=CONTENT_TYPE)


def described_in_place(error: Exception) -> dict[str, Any]:
    """An error as a problem among other results, with `retry_after_s` instead of a header field. Logs a bug."""
    described = describe(error)
    if described is None:
        log.error("A question of a batch failed", exc_info=error)
        return problem(500, "Something went wrong here; it is in the log.")
    wait_s = described.headers.get("Retry-After")
    return described.body | ({"retry_after_s": int(wait_s)} if wait_s else {})


def problem_page(status: int, detail: str) -> JsonResponse:
    """A problem outside of REST framework's views."""
    return JsonResponse(problem(status, detail), status=status, content_type=CONTENT_TYPE)


@csrf_exempt  # 404 for every method
def not_found(_request: HttpRequest, **_kwargs: str) -> JsonResponse:
    """Any address below the API that does not exist."""
    return problem_page(404, "There is nothing at this address.")


def _field_errors(detail: Any, path: str = "") -> Iterator[FieldError]:
    """Flatten REST framework's nested errors: exclude[2], or "" for the whole body."""
    if isinstance(detail, dict):
        for key, value in detail.items():
            if key == "non_field_errors":
                yield from _field_errors(value, path)
            elif isinstance(key, int):
                yield from _field_errors(value, f"{path}[{key}]")
            else:
                yield from _field_errors(value, f"{path}.{key}" if path else key)
    elif isinstance(detail, list):
        for value in detail:
            yield from _field_errors(value, path)
    else:
        yield FieldError(path, str(detail))
