"""What goes wrong: the server's problem details (RFC 9457) as exceptions, and a server that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FieldError:
    """What is wrong with one field of a request; the field is empty where it is the request as a whole."""

    field: str
    detail: str


class ApiError(Exception):
    """What the server said. request_id: what its log calls the request."""

    def __init__(self, problem: Mapping[str, Any], retry_after_s: int | None = None) -> None:
        self.status = int(problem["status"])
        self.detail = str(problem["detail"])
        self.errors = tuple(FieldError(one["field"], one["detail"]) for one in problem.get("errors", ()))
        self.request_id: str | None = problem.get("request_id")
        self.retry_after_s: int | None = problem.get("retry_after_s", retry_after_s)
        named = [f"{one.field}: {one.detail}" if one.field else one.detail for one in self.errors]
        super().__init__(" ".join([self.detail, *named]))


class InvalidRequest(ApiError):
    """The request is wrong (400, 413, 415, 422); `errors` names the fields."""


class NotAllowed(ApiError):
    """The token is missing, unknown, or not for this (401, 403)."""


class NotFound(ApiError):
    """There is no such thing (404)."""


class Conflict(ApiError):
    """Not possible as things stand (409).

    job: the address of a job that does the same already. doubts, confirm: what must be confirmed before deploying, and
    the word that confirms it.
    """

    def __init__(self, problem: Mapping[str, Any], retry_after_s: int | None = None) -> None:
        super().__init__(problem, retry_after_s)
        self.job: str | None = problem.get("job")
        self.doubts: tuple[str, ...] = tuple(problem.get("doubts", ()))
        self.confirm: str | None = problem.get("confirm")


class ChangedMeanwhile(ApiError):
    """Another edit came between: the document has not the version `if_match` (412). version: its present one."""

    def __init__(self, problem: Mapping[str, Any], retry_after_s: int | None = None) -> None:
        super().__init__(problem, retry_after_s)
        self.version: str | None = problem.get("version")


class TooManyRequests(ApiError):
    """More questions than are allowed (429); `retry_after_s` says when to come back."""


class Unavailable(ApiError):
    """The server cannot answer now (503); `retry_after_s` says when to come back."""


class Unreachable(Exception):
    """No answer came at all: the server is not there, or the connection broke."""


_KINDS: dict[int, type[ApiError]] = {
    400: InvalidRequest,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    412: ChangedMeanwhile,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: TooManyRequests,
    503: Unavailable,
}


def error_from(problem: Mapping[str, Any], retry_after_s: int | None = None) -> ApiError:
    """The exception for a problem."""
    return _KINDS.get(int(problem["status"]), ApiError)(problem, retry_after_s)
