"""The base of all REST views: permissions, strict reading of requests, and paging."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, inline_serializer
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.permissions import AllowAny
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.serializers import Serializer, URLField
from rest_framework.utils import json
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView

from webapp.refusals import FieldError, InvalidRequest
from webapp.rest.authentication import AUTHENTICATION, MayAsk, MayOperate, MayRead
from webapp.rest.parameters import only_parameters, whole_number
from webapp.rest.problems import CONTENT_TYPE
from webapp.rest.serializers import ProblemSerializer, StrictSerializer

DEFAULT_PAGE: Final = 50
LARGEST_PAGE: Final = 500
JSON_LINES: Final = "application/jsonl"

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
    503: "No model is ready, or the database does not answer; `Retry-After` says when to come back.",
    507: "The server's disk is full or takes no files.",
}


def problem_responses(*statuses: int) -> dict[Any, Any]:
    """The problems that a view may answer with, for its description; 401 and 503 are always among them."""
    return {
        (status, CONTENT_TYPE): OpenApiResponse(ProblemSerializer, description=_DESCRIPTIONS[status])
        for status in sorted({401, 503, *statuses})
    }


class Renderer(JSONRenderer):
    """JSON for any text: a lone surrogate, which UTF-8 cannot encode, becomes a question mark."""

    def render(self, data: Any, *arguments: Any, **options: Any) -> bytes:
        """The body of a response."""
        try:
            return super().render(data, *arguments, **options)
        except UnicodeEncodeError:
            return json.dumps(data, cls=self.encoder_class, ensure_ascii=False).encode(errors="replace")


class LinesRenderer(Renderer):
    """JSON lines. If there are none to send, because all failed, one line."""

    media_type = JSON_LINES


class PublicView(APIView):
    """For all who may read; on an open site everybody may."""

    authentication_classes = AUTHENTICATION
    permission_classes = [AllowAny, MayRead]  # the first makes authentication optional in the description
    renderer_classes = [Renderer]


class AskingView(PublicView):
    """For all who may ask; a token needs the scope for asking."""

    permission_classes = [AllowAny, MayAsk]


class OperatorView(APIView):
    """For admins, with a session or a token for operating."""

    authentication_classes = AUTHENTICATION
    permission_classes = [MayOperate]
    renderer_classes = [Renderer]

    @property
    def operator(self) -> User:
        """The caller; `MayOperate` has refused anonymous ones."""
        assert isinstance(self.request.user, User)
        return self.request.user


def checked(request: Request, kind: type[StrictSerializer]) -> dict[str, Any]:
    """The body, validated by `kind`."""
    only_parameters(request, ())
    serializer = kind(data=_body(request))
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def without_body(request: Request, known: Sequence[str] = ()) -> None:
    """Refuse a body where there must be none, and unknown parameters."""
    only_parameters(request, known)
    if _body(request):
        raise InvalidRequest(FieldError("", "Nothing is expected in the body."))


def _body(request: Request) -> Any:
    try:
        return request.data
    except RecursionError:
        raise InvalidRequest(FieldError("", "The body is nested too deeply.")) from None


class Pages(CursorPagination):
    """A page of records with links to its neighbours; new rows do not shift it.

    ordering: fields, with `-` for descending. The first may have equal values, all together must be unique.
    """

    def __init__(self, ordering: tuple[str, ...]) -> None:
        self.ordering = ordering
        self.max_page_size = LARGEST_PAGE
        self.page_size_query_param = "page_size"

    def paginate_queryset(self, queryset: Any, request: Request, view: APIView | None = None) -> Any:
        """The records of the requested page; queryset: a QuerySet."""
        self._field = queryset.model._meta.get_field(self.ordering[0].removeprefix("-"))
        return super().paginate_queryset(queryset, request, view)

    def get_page_size(self, request: Request) -> int:
        """Records per page."""
        return whole_number(request, "page_size", DEFAULT_PAGE, low=1, high=LARGEST_PAGE)

    def decode_cursor(self, request: Request) -> Cursor | None:
        """The start of the page; an unknown cursor is a wrong parameter."""
        try:
            # REST framework itself would ignore characters that no cursor has, and return the first page.
            base64.b64decode(request.query_params.get(self.cursor_query_param, ""), validate=True)
            cursor = super().decode_cursor(request)
            if cursor is None or cursor.position is None:
                return cursor
            position = self._field.to_python(str(cursor.position))
            if isinstance(position, datetime):
                position = position.astimezone(UTC)
            elif isinstance(position, float) and not math.isfinite(position):
                raise ValueError
            return cursor._replace(position=str(position))  # type: ignore[arg-type]  # the stubs only know ids
        except (NotFound, ValidationError, ValueError, OverflowError):
            raise InvalidRequest(FieldError("cursor", "This is no cursor of this list.")) from None


def offset_in(request: Request) -> int:
    """Where the page begins in a list that is not paged by a column (`offset_links`)."""
    cursor = request.query_params.get("cursor", "")
    try:
        text = base64.b64decode(cursor, validate=True).decode()
    except ValueError:
        text = "?"
    number = text.removeprefix("o=")
    if not text:
        return 0
    if text == number or not (number.isascii() and number.isdecimal() and len(number) < 12):
        raise InvalidRequest(FieldError("cursor", "This is no cursor of this list."))
    return int(number)


def offset_links(request: Request, start: int, count: int, total: int) -> dict[str, str | None]:
    """`next` and `previous` of a page of such a list."""

    def page(first: int) -> str:
        cursor = base64.b64encode(f"o={first}".encode()).decode()
        return replace_query_param(request.build_absolute_uri(), "cursor", cursor)

    return {
        "next": page(start + count) if start + count < total else None,
        "previous": page(max(0, start - count)) if start else None,
    }


PAGING: Final = [
    OpenApiParameter("cursor", OpenApiTypes.STR, description="Start of the page, from `next` or `previous`."),
    OpenApiParameter("page_size", OpenApiTypes.INT, description=f"1 to {LARGEST_PAGE}; {DEFAULT_PAGE} if not given."),
]


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
