"""Operations of the API, each declared once: what is said of a request in the description is what it may have.

@operation("stop_job", "Stop a job", gives=JobSerializer, problems=[409])
def post(self, request: Request, job_id: UUID) -> Response: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any, Final, TypeVar

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.views import APIView

from webapp.refusals import FieldError, InvalidRequest
from webapp.rest.headers import sent_headers
from webapp.rest.parameters import only_parameters
from webapp.rest.problems import CONTENT_TYPE
from webapp.rest.serializers import ProblemSerializer, StrictSerializer

JSON: Final = "application/json"
FORM: Final = "multipart/form-data"
_DESCRIPTIONS: Final = {
    400: "The request is not valid; `errors` names the fields.",
    401: "The token is unknown, has expired or was revoked; or there is none, and one is needed.",
    403: "This caller may not do this.",
    404: "There is no such thing.",
    409: "Not possible as things stand; `detail` says why.",
    412: "The document was changed meanwhile: it has none of the versions in `If-Match`. `version` is its present one.",
    413: "The body is too large.",
    415: "The body is of no media type that is taken here.",
    422: "This cannot be done; `detail` says why.",
    429: "Too many questions, or too many edits; `Retry-After` says when to come back.",
    503: "No model is ready, or the database does not answer; `Retry-After` says when to come back.",
    507: "The server's disk is full or takes no files.",
}
_ALWAYS: Final = {400, 401, 403, 503}
_OF_RECORDS: Final = {404}
_OF_BODIES: Final = {413, 415}

Result = TypeVar("Result")
Body = type[StrictSerializer]


def operation(
    name: str,
    summary: str,
    about: str = "",
    *,
    gives: Any,
    takes: Body | Mapping[str, Body] | None = None,
    parameters: Sequence[OpenApiParameter] = (),
    problems: Sequence[int] = (),
    examples: Sequence[OpenApiExample] = (),
    headers: Sequence[OpenApiParameter] = (),
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Describe a method of a view, and refuse requests that do not fit its description before it runs.

    gives:      serialiser of the response of status 200; by status for another; None: there is no content (204).
    takes:      serialiser of the body, or by media type; the method gets the validated one as `body`. None: no body.
    parameters: of the query and the header; other query parameters are refused.
    problems:   statuses of its problems, beside those of every operation, of every body and of an address that names
                a record.
    headers:    of its responses, beside those that follow from all of this (`headers.py`).
    """

    def declare(method: Callable[..., Result]) -> Callable[..., Result]:
        reads = method.__name__ == "get"
        names_record = bool(signature(method).parameters.keys() - {"self", "request", "_request", "body"})
        known = {one.name: bool(one.many) for one in parameters if one.location == OpenApiParameter.QUERY}

        @wraps(method)
        def check_and_run(view: APIView, request: Request, **named: Any) -> Result:
            if takes is not None:
                named["body"] = _checked(request, _kind(takes, request))
            elif reads:
                only_parameters(request, known)
            else:
                _without_body(request, known)
            return method(view, request, **named)

        good = _responses(gives)
        statuses = _ALWAYS | set(problems)
        statuses |= _OF_BODIES if method.__name__ in ("post", "put", "patch") else set()
        # A PUT makes what is not there.
        statuses |= _OF_RECORDS if names_record and method.__name__ != "put" else set()
        return extend_schema(
            operation_id=name,
            summary=summary,
            description=about or summary,  # else it would be the docstring of the view
            parameters=[*parameters, *sent_headers(parameters, _statuses(good), statuses), *headers],
            request=takes,
            responses={**good, **_problem_responses(statuses)},
            examples=list(examples),
        )(check_and_run)

    return declare


def sent(title: str, value: Any, media_type: str | None = None) -> OpenApiExample:
    """An example of a request."""
    return OpenApiExample(title, value=value, request_only=True, media_type=media_type)


def given(title: str, value: Any, *statuses: int, media_type: str | None = None) -> OpenApiExample:
    """An example of a response; of status 200 if no other is named."""
    codes = [str(status) for status in statuses or (200,)]
    return OpenApiExample(title, value=value, response_only=True, status_codes=codes, media_type=media_type)


def _kind(takes: Body | Mapping[str, Body], request: Request) -> Body:
    if not isinstance(takes, Mapping):
        return takes
    is_form = JSON not in takes or request.content_type.lower().startswith(FORM)
    kind = takes.get(FORM if is_form else JSON)
    if kind is None:  # another operation of this address accepts this content type
        raise UnsupportedMediaType(request.content_type)
    return kind


def _responses(gives: Any) -> dict[Any, Any]:
    if gives is None:
        return {204: None}
    return dict(gives) if isinstance(gives, Mapping) else {200: gives}


def _statuses(responses: Mapping[Any, Any]) -> set[int]:
    """The statuses of responses, some of which are named with their media type."""
    return {one[0] if isinstance(one, tuple) else one for one in responses}


def _problem_responses(statuses: set[int]) -> dict[Any, Any]:
    return {
        (status, CONTENT_TYPE): OpenApiResponse(ProblemSerializer, description=_DESCRIPTIONS[status])
        for status in sorted(statuses)
    }


def _checked(request: Request, kind: type[StrictSerializer]) -> dict[str, Any]:
    only_parameters(request, {})
    serializer = kind(data=_body(request))
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def _without_body(request: Request, known: Mapping[str, bool]) -> None:
    """Refuse a body where there must be none, and unknown parameters."""
    only_parameters(request, known)
    if _body(request):
        raise InvalidRequest(FieldError("", "Nothing is expected in the body."))


def _body(request: Request) -> Any:
    try:
        return request.data
    except RecursionError:
        raise InvalidRequest(FieldError("", "The body is nested too deeply.")) from None
