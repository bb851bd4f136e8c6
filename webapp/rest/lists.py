"""Lists in the API: their parameters, and pages of them."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, inline_serializer
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer, URLField
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView

from webapp.refusals import FieldError, InvalidRequest
from webapp.rest.operation import operation
from webapp.rest.parameters import ListFilter, filtered, order_parameter, ordering, whole_number

_DEFAULT_PAGE: Final = 50
_LARGEST_PAGE: Final = 500
PAGING: Final = [
    OpenApiParameter("cursor", OpenApiTypes.STR, description="Start of the page, from `next` or `previous`."),
    OpenApiParameter("page_size", OpenApiTypes.INT, description=f"1 to {_LARGEST_PAGE}; {_DEFAULT_PAGE} if not given."),
]


@dataclass(frozen=True, kw_only=True)
class RecordList:
    """A list of records. filters: query parameters that select some.

    orders: fields that a client may order by; without `order` by the first one, descending. order: of a list that has
    only this one.
    address: its last part. kind: serialiser of a record. example: of one. page_name: what the description calls a page.
    """

    filters: Sequence[ListFilter] = ()
    orders: Sequence[str] = ()
    order: tuple[str, ...] = ()
    address: str
    kind: type[Serializer[Any]]
    example: Mapping[str, Any]
    page_name: str

    @property
    def parameters(self) -> list[OpenApiParameter]:
        """Its parameters, for a view's description."""
        order = [order_parameter(self.orders)] if self.orders else []
        return [*PAGING, *order, *(one.parameter for one in self.filters)]

    def operation(
        self, name: str, summary: str, about: str = "", *, title: str = ""
    ) -> Callable[[Callable[..., QuerySet[Any]]], Callable[..., Response]]:
        """Make a method that returns records an operation that returns the requested page of them."""
        title = title or self.address.replace("-", " ").capitalize()

        def declare(method: Callable[..., QuerySet[Any]]) -> Callable[..., Response]:
            @wraps(method)
            def get(view: APIView, request: Request) -> Response:
                records = filtered(request, method(view, request), self.filters)
                pages = _Pages(ordering(request, self.orders) if self.orders else self.order)
                page = pages.paginate_queryset(records, request)
                return pages.get_paginated_response(self.kind(page, many=True).data)

            return operation(
                name,
                summary,
                about,
                gives=page_response(self.page_name, self.kind),
                parameters=self.parameters,
                examples=[page_example(title, self.example, self.address)],
            )(get)

        return declare


class _Pages(CursorPagination):
    """A page of records with links to its neighbours; new rows do not shift it.

    ordering: fields, with `-` for descending. The first may have equal values, all together must be unique.
    """

    def __init__(self, ordering: tuple[str, ...]) -> None:
        self.ordering = ordering

    def paginate_queryset(self, queryset: Any, request: Request, view: APIView | None = None) -> Any:
        """The records of the requested page; queryset: a QuerySet."""
        self._field = queryset.model._meta.get_field(self.ordering[0].removeprefix("-"))
        return super().paginate_queryset(queryset, request, view)

    def get_page_size(self, request: Request) -> int:
        return page_size(request)

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
            raise wrong_cursor() from None


def page_size(request: Request) -> int:
    """How many records the page of a list has."""
    return whole_number(request, "page_size", _DEFAULT_PAGE, low=1, high=_LARGEST_PAGE)


def cursor_in(request: Request) -> str:
    """What `cursor_link` was given for this page of a list that is not paged by a column; empty: the first."""
    try:
        return base64.b64decode(request.query_params.get("cursor", ""), validate=True).decode()
    except ValueError:
        raise wrong_cursor() from None


def cursor_link(request: Request, cursor: str) -> str:
    """The address of a page of such a list."""
    return replace_query_param(request.build_absolute_uri(), "cursor", base64.b64encode(cursor.encode()).decode())


def wrong_cursor(says: str = "This is no cursor of this list.") -> InvalidRequest:
    return InvalidRequest(FieldError("cursor", says))


def offset_in(request: Request) -> tuple[int, int]:
    """(start, size) of the page of a list that is paged by number (`offset_links`)."""
    size, text = page_size(request), cursor_in(request)
    number = text.removeprefix("o=")
    if not text:
        return 0, size
    if text == number or not (number.isascii() and number.isdecimal() and len(number) < 12):
        raise wrong_cursor()
    return int(number), size


def offset_links(request: Request, start: int, count: int, total: int) -> dict[str, str | None]:
    """`next` and `previous` of a page of such a list."""
    return {
        "next": cursor_link(request, f"o={start + count}") if start + count < total else None,
        "previous": cursor_link(request, f"o={max(0, start - count)}") if start else None,
    }


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
