"""Query parameters, read strictly: filters and order of a list, whole numbers; and `Idempotency-Key` and `If-Match`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

from django.db.models import CharField, Model, QuerySet
from django.utils.dateparse import parse_datetime
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from realm_core.errors import unfit_character
from webapp.refusals import FieldError, InvalidRequest

_LARGEST_ID: Final = 2**63 - 1  # the largest value of an id column
_TRUTH: Final = {"true": True, "false": False}
_VISIBLE: Final = re.compile(r"[\x21-\x7e]{1,255}")
_ENTITY_TAG: Final = re.compile(r'"([\x21\x23-\x7e\x80-\xff]*)"')

Value = TypeVar("Value")
Default = TypeVar("Default")


@dataclass(frozen=True)
class ListFilter:
    """A query parameter that selects records.

    lookup: the database lookup that is applied to the value from `read`. read: parses the parameter; raises ValueError
    with an error message.
    """

    parameter: OpenApiParameter
    lookup: str
    read: Callable[[str], Any]

    @property
    def name(self) -> str:
        return self.parameter.name


def by_id(name: str, record: type[Model], lookup: str = "") -> ListFilter:
    """Records that refer to another one. lookup: if it differs from the parameter's name."""
    about = OpenApiParameter(name, OpenApiTypes.INT, description=f"Id of the {record._meta.verbose_name}.")
    return ListFilter(about, lookup or name, _whole)


def by_word(name: str, words: Sequence[str]) -> ListFilter:
    """Records with a field that is one of some words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"This must be one of {', '.join(words)}.")
        return text

    return ListFilter(OpenApiParameter(name, OpenApiTypes.STR, enum=list(words)), name, read)


def by_text(name: str, record: type[Model], lookup: str = "") -> ListFilter:
    """Records with a text field, matched exactly. lookup: if it differs from the parameter's name."""
    field = record._meta.get_field(name)
    assert isinstance(field, CharField) and field.max_length is not None
    most = field.max_length

    def read(text: str) -> str:
        if not 1 <= len(text) <= most:
            raise ValueError(f"This must be a text of 1 to {most} characters.")
        if found := unfit_character(text):  # PostgreSQL refuses some characters
            raise ValueError(f"This must be a text without {found!r}.")
        return text

    schema = {"type": "string", "minLength": 1, "maxLength": most}
    return ListFilter(OpenApiParameter(name, schema, description="Letter for letter."), lookup or name, read)


def by_truth(name: str, lookup: str, description: str, *, inverted: bool = False) -> ListFilter:
    """Records by a condition that holds or does not."""

    def read(text: str) -> bool:
        return _truth(text) is not inverted

    return ListFilter(OpenApiParameter(name, OpenApiTypes.BOOL, description=description), lookup, read)


def by_time(field: str = "created_at") -> tuple[ListFilter, ListFilter]:
    """Records of a period: `since` is in it, `before` is not. field: the time that is compared."""
    since, before = (
        OpenApiParameter(name, OpenApiTypes.DATETIME, description=f"`{field}` {says} then.")
        for name, says in (("since", "at or after"), ("before", "before"))
    )
    return ListFilter(since, f"{field}__gte", _time), ListFilter(before, f"{field}__lt", _time)


def filtered(request: Request, records: QuerySet[Any], filters: Collection[ListFilter]) -> QuerySet[Any]:
    """The records that the query parameters select."""
    for one in filters:
        if (value := value_of(request, one)) is not None:
            records = records.filter(**{one.lookup: value})
    return records


def value_of(request: Request, one: ListFilter) -> Any:
    """The value of a filter; None: it is not given."""
    return _given(request, one.name, one.read, None)


def only_parameters(request: Request, known: Mapping[str, bool]) -> None:
    """Refuse unknown query parameters, and repeated ones. known: whether it may be given several times, by name."""
    wrong = []
    for name, values in request.query_params.lists():
        if name not in known:
            wrong.append(FieldError(name, "There is no such parameter."))
        elif len(values) > 1 and not known[name]:
            wrong.append(FieldError(name, f"This may be given once, and is given {len(values):,} times."))
    if wrong:
        raise InvalidRequest(*wrong)


def order_parameter(fields: Sequence[str]) -> OpenApiParameter:
    """The description of the parameter that `ordering` reads."""
    words = [sign + field for field in fields for sign in ("-", "")]
    about = f"`{words[0]}` if not given; `-`: descending."
    return OpenApiParameter("order", OpenApiTypes.STR, enum=words, description=about)


def ordering(request: Request, fields: Sequence[str]) -> tuple[str, str]:
    """The requested order, by one of the fields; by default by the first one, descending."""
    given = request.query_params.get("order", f"-{fields[0]}")
    if given.removeprefix("-") not in fields:
        raise InvalidRequest(FieldError("order", f"This must be one of {', '.join(fields)}, or the same with a -."))
    return given, "-pk" if given.startswith("-") else "pk"


def key_parameter(description: str) -> OpenApiParameter:
    """The description of the header that `idempotency_key` reads."""
    return OpenApiParameter("Idempotency-Key", OpenApiTypes.STR, OpenApiParameter.HEADER, description=description)


def idempotency_key(request: Request) -> str | None:
    """The key of a request that is to be carried out once, if it has one."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not _VISIBLE.fullmatch(key):
        raise InvalidRequest(FieldError("Idempotency-Key", "A key is 1 to 255 visible ASCII characters."))
    return key


IF_MATCH: Final = OpenApiParameter(
    "If-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="An `ETag` of this address, or several: nothing happens where it has another one now (412).",
)


def if_match(request: Request) -> frozenset[str] | None:
    """The entity tags of `If-Match` (RFC 9110, 13.1.1), without quotes; None: any will do."""
    told = request.headers.get("If-Match")
    if told is None or told.strip() == "*":
        return None
    parts = _ENTITY_TAG.split(told)
    tags, between = parts[1::2], parts[::2]
    if not tags or set("".join(between)) - set(" \t,") or not all("," in one for one in between[1:-1]):
        says = 'This must be * or entity tags such as "0f6c3d9c4be1f2a3", separated by commas; weak ones match nothing.'
        raise InvalidRequest(FieldError("If-Match", says))
    return frozenset(tag.partition("-")[0] for tag in tags)  # proxies that compress append -gzip to ours


def time_in(request: Request, name: str) -> datetime | None:
    """A time from the query parameters; None: none is given."""
    return _given(request, name, _time, None)


def whole_number(request: Request, name: str, default: int, *, low: int = 0, high: int = _LARGEST_ID) -> int:
    """A whole number from the query parameters."""
    return _given(request, name, partial(_whole, low=low, high=high), default)


def truth(request: Request, name: str) -> bool:
    """Whether something is said to be so; false if it is not given."""
    return _given(request, name, _truth, False)


def _given(request: Request, name: str, read: Callable[[str], Value], default: Default) -> Value | Default:
    """The value of a query parameter, or the default if it is not given."""
    text = request.query_params.get(name)
    try:
        return default if text is None else read(text)
    except ValueError as error:
        raise InvalidRequest(FieldError(name, str(error))) from None


def _truth(text: str) -> bool:
    if text not in _TRUTH:
        raise ValueError("This must be true or false.")
    return _TRUTH[text]


def _whole(text: str, low: int = 0, high: int = _LARGEST_ID) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and low <= int(text) <= high):
        raise ValueError(f"This must be a whole number from {low} to {high}.")
    return int(text)


def _time(text: str) -> datetime:
    try:
        moment = parse_datetime(text.replace(" ", "+"))  # an unescaped +
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError("This must be a time with its offset, such as 2026-01-31T12:00:00Z.")
    try:
        return moment.astimezone(UTC)  # PostgreSQL refuses unusual offsets, such as +23:18
    except OverflowError:
        raise ValueError("This must be a time between the years 1 and 9999.") from None
