"""What all views of the API share: who may call them, strict reading of what they are sent, and paging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.utils.dateparse import parse_datetime
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, inline_serializer
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.permissions import AllowAny
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.serializers import Serializer, URLField
from rest_framework.utils import json
from rest_framework.views import APIView

from webapp.api.authentication import AUTHENTICATION, MayAsk, MayOperate
from webapp.api.problems import CONTENT_TYPE
from webapp.api.serializers import ProblemSerializer, StrictSerializer
from webapp.services.asking import FieldError, InvalidRequest

DEFAULT_PAGE: Final = 50
LARGEST_PAGE: Final = 500
_LARGEST_ID: Final = 2**63 - 1  # what a database's column of ids holds

_DESCRIPTIONS: Final = {
    400: "The request is not valid; `errors` names the fields.",
    401: "The token is unknown, has expired or was revoked; or there is none, and one is needed.",
    403: "This caller may not do this.",
    404: "There is no such thing.",
    409: "Not possible as things stand; `detail` says why.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "This cannot be done; `detail` says why.",
    429: "Too many questions; `Retry-After` says when to come back.",
    503: "No model is ready; `Retry-After` says when to come back.",
}


def problem_responses(*statuses: int) -> dict[Any, Any]:
    """The problems that a view may answer with, for its description. Every view may answer 401."""
    return {
        (status, CONTENT_TYPE): OpenApiResponse(ProblemSerializer, description=_DESCRIPTIONS[status])
        for status in sorted({401, *statuses})
    }


class Renderer(JSONRenderer):
    """JSON whatever is in it: half a surrogate pair, which UTF-8 cannot write, becomes a question mark."""

    def render(self, data: Any, *arguments: Any, **options: Any) -> bytes:
        """The body of a response."""
        try:
            return super().render(data, *arguments, **options)
        except UnicodeEncodeError:
            return json.dumps(data, cls=self.encoder_class, ensure_ascii=False).encode(errors="replace")


class PublicView(APIView):
    """For everybody."""

    authentication_classes = AUTHENTICATION
    renderer_classes = [Renderer]


class AskingView(PublicView):
    """For everybody, but for a token only when it is one for asking."""

    permission_classes = [AllowAny, MayAsk]  # the first says in the description that nobody need log in


class OperatorView(APIView):
    """For staff, with a session or a token for operating."""

    authentication_classes = AUTHENTICATION
    permission_classes = [MayOperate]
    renderer_classes = [Renderer]

    @property
    def operator(self) -> User:
        """Who is calling; `MayOperate` has let nobody anonymous in."""
        assert isinstance(self.request.user, User)
        return self.request.user


def checked(request: Request, kind: type[StrictSerializer]) -> dict[str, Any]:
    """The body, as `kind` wants it."""
    only_parameters(request, ())
    serializer = kind(data=_body(request))
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def without_body(request: Request) -> None:
    """Refuse parameters and a body where neither means anything."""
    only_parameters(request, ())
    if _body(request):
        raise InvalidRequest(FieldError("", "Nothing is expected in the body."))


def _body(request: Request) -> Any:
    try:
        return request.data
    except RecursionError:
        raise InvalidRequest(FieldError("", "The body is nested too deeply.")) from None


def only_parameters(request: Request, known: Sequence[str]) -> None:
    """Refuse parameters of the address that do not exist."""
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise InvalidRequest(*(FieldError(name, "There is no such parameter.") for name in unknown))


def whole_number(request: Request, name: str, default: int, *, low: int = 0, high: int = _LARGEST_ID) -> int:
    """A whole number from the parameters of the address."""
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and low <= int(text) <= high):
        raise InvalidRequest(FieldError(name, f"This must be a whole number from {low} to {high}."))
    return int(text)


class Pages(CursorPagination):
    """A page of records, the latest first, with the addresses of its neighbours; rows that are new move nothing."""

    def __init__(self, ordering: tuple[str, ...]) -> None:
        self.ordering = ordering
        self.max_page_size = LARGEST_PAGE
        self.page_size_query_param = "page_size"

    def get_page_size(self, request: Request) -> int:
        """How many a page."""
        return whole_number(request, "page_size", DEFAULT_PAGE, low=1, high=LARGEST_PAGE)

    def decode_cursor(self, request: Request) -> Cursor | None:
        """Where the page begins; a cursor that was not ours is a wrong parameter."""
        try:
            cursor = super().decode_cursor(request)
            if cursor is None or cursor.position is None:
                return cursor
            since = parse_datetime(str(cursor.position))
            if since is None:
                raise ValueError
            return cursor._replace(position=str(since.astimezone(UTC)))  # type: ignore[arg-type]  # the stubs know ids alone
        except (NotFound, ValueError, OverflowError):
            raise InvalidRequest(FieldError("cursor", "This is no cursor of this list.")) from None


PAGING: Final = [
    OpenApiParameter("cursor", OpenApiTypes.STR, description="Where the page begins, out of `next` or `previous`."),
    OpenApiParameter("page_size", OpenApiTypes.INT, description=f"1 to {LARGEST_PAGE}; {DEFAULT_PAGE} if not given."),
]


def filtered(
    request: Request, records: QuerySet[Any], filters: Mapping[str, type[Model] | Sequence[str]]
) -> QuerySet[Any]:
    """Those of the records that the parameters of the address ask for: by id, or by one of some words."""
    only_parameters(request, ("cursor", "page_size", *filters))
    for name, possible in filters.items():
        given = request.query_params.get(name)
        if given is None:
            continue
        if isinstance(possible, type):
            records = records.filter(**{name: whole_number(request, name, 0)})
        elif given in possible:
            records = records.filter(**{name: given})
        else:
            raise InvalidRequest(FieldError(name, f"This must be one of {', '.join(possible)}."))
    return records


def page_response(name: str, kind: type[Serializer[Any]]) -> OpenApiResponse:
    """A page of records, for a view's description. name: of the component."""
    fields = {
        "next": URLField(allow_null=True, help_text="Address of the following page; null: this is the last."),
        "previous": URLField(allow_null=True),
        "results": kind(many=True),
    }
    return OpenApiResponse(inline_serializer(name, fields))


def page_example(title: str, record: Mapping[str, Any], address: str) -> OpenApiExample:
    """A page with one record, for a view's description."""
    page = {"next": f"https://qa.example.org/api/v1/{address}?cursor=cD0yMDI2", "previous": None, "results": [record]}
    return OpenApiExample(title, value=page, response_only=True, status_codes=["200"])
