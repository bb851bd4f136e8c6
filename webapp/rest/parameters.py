"""Parameters of the address, read strictly: those that choose the records of a list, their order, whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.db.models import CharField, Model, QuerySet
from django.utils.dateparse import parse_datetime
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from realm_core.errors import unfit_character
from webapp.refusals import FieldError, InvalidRequest

_LARGEST_ID: Final = 2**63 - 1  # what a database's column of ids holds
_TRUTH: Final = {"true": True, "false": False}


@dataclass(frozen=True)
class Filter:
    """A parameter of the address that chooses records.

    lookup: of the database, that what `read` makes of the parameter's text must meet. read: ValueError, with a sentence
    for whoever asked, where the text is none of this parameter's.
    """

    parameter: OpenApiParameter
    lookup: str
    read: Callable[[str], Any]

    @property
    def name(self) -> str:
        """Of the parameter."""
        return self.parameter.name


def by_id(name: str, record: type[Model], lookup: str = "") -> Filter:
    """Records that name another one. lookup: where that is not what the parameter is called."""
    about = OpenApiParameter(name, OpenApiTypes.INT, description=f"Id of a {record._meta.verbose_name}.")
    return Filter(about, lookup or name, _whole)


def by_word(name: str, words: Sequence[str]) -> Filter:
    """Records of which a field is one of some words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"This must be one of {', '.join(words)}.")
        return text

    return Filter(OpenApiParameter(name, OpenApiTypes.STR, enum=list(words)), name, read)


def by_text(name: str, record: type[Model]) -> Filter:
    """Records of which a field is a text, letter for letter."""
    field = record._meta.get_field(name)
    assert isinstance(field, CharField) and field.max_length is not None
    most = field.max_length

    def read(text: str) -> str:
        if not 1 <= len(text) <= most:
            raise ValueError(f"This must be a text of 1 to {most} characters.")
        if found := unfit_character(text):  # PostgreSQL refuses to look for some
            raise ValueError(f"This must be a text without {found!r}.")
        return text

    schema = {"type": "string", "minLength": 1, "maxLength": most}
    return Filter(OpenApiParameter(name, schema, description="Letter for letter."), name, read)


def by_truth(name: str, lookup: str, description: str, *, inverted: bool = False) -> Filter:
    """Records of which something holds, or does not."""

    def read(text: str) -> bool:
        if text not in _TRUTH:
            raise ValueError("This must be true or false.")
        return _TRUTH[text] is not inverted

    return Filter(OpenApiParameter(name, OpenApiTypes.BOOL, description=description), lookup, read)


def by_time(field: str = "created_at") -> tuple[Filter, Filter]:
    """Records of a stretch of time: `since` is in it, `before` is not. field: of the records, the time that counts."""
    since, before = (
        OpenApiParameter(name, OpenApiTypes.DATETIME, description=f"`{field}` {says} then.")
        for name, says in (("since", "at or after"), ("before", "before"))
    )
    return Filter(since, f"{field}__gte", _time), Filter(before, f"{field}__lt", _time)


def filtered(
    request: Request, records: QuerySet[Any], filters: Collection[Filter], *, also: Sequence[str] = ()
) -> QuerySet[Any]:
    """Those of the records that the parameters of the address ask for. also: parameters that mean something else."""
    only_parameters(request, ("cursor", "page_size", *also, *(one.name for one in filters)))
    for one in filters:
        given = request.query_params.get(one.name)
        if given is None:
            continue
        try:
            records = records.filter(**{one.lookup: one.read(given)})
        except ValueError as error:
            raise InvalidRequest(FieldError(one.name, str(error))) from None
    return records


def only_parameters(request: Request, known: Sequence[str]) -> None:
    """Refuse parameters of the address that do not exist."""
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise InvalidRequest(*(FieldError(name, "There is no such parameter.") for name in unknown))


def order_parameter(fields: Sequence[str]) -> OpenApiParameter:
    """The parameter that `ordering` reads."""
    words = [sign + field for field in fields for sign in ("-", "")]
    about = f"`{words[0]}` if not given; `-`: falling."
    return OpenApiParameter("order", OpenApiTypes.STR, enum=words, description=about)


def ordering(request: Request, fields: Sequence[str]) -> tuple[str, str]:
    """The order that is asked for, by one of the fields; by the first of them, falling, if nothing is."""
    given = request.query_params.get("order", f"-{fields[0]}")
    if given.removeprefix("-") not in fields:
        raise InvalidRequest(FieldError("order", f"This must be one of {', '.join(fields)}, or the same with a -."))
    return given, "-pk" if given.startswith("-") else "pk"


def whole_number(request: Request, name: str, default: int, *, low: int = 0, high: int = _LARGEST_ID) -> int:
    """A whole number from the parameters of the address."""
    try:
        return _whole(request.query_params.get(name, str(default)), low, high)
    except ValueError as error:
        raise InvalidRequest(FieldError(name, str(error))) from None


def _whole(text: str, low: int = 0, high: int = _LARGEST_ID) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and low <= int(text) <= high):
        raise ValueError(f"This must be a whole number from {low} to {high}.")
    return int(text)


def _time(text: str) -> datetime:
    try:
        moment = parse_datetime(text.replace(" ", "+"))  # a + that was not escaped
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError("This must be a time with its offset, such as 2026-01-31T12:00:00Z.")
    try:
        return moment.astimezone(UTC)  # PostgreSQL refuses offsets that no place has, such as +23:18
    except OverflowError:
        raise ValueError("This must be a time between the years 1 and 9999.") from None
