"""JSON of the server as the dataclasses of `_records`."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def record(kind: type[T], value: Any) -> T:
    """JSON as a record."""
    made: T = _made(kind, value)
    return made


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _made(kind: Any, value: Any) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        inner = next(one for one in get_args(kind) if one is not type(None))
        return None if value is None else _made(inner, value)
    if origin is tuple:
        return tuple(_made(get_args(kind)[0], one) for one in value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    if kind is date:
        return date.fromisoformat(value)
    if is_dataclass(kind) and isinstance(value, Mapping):
        hints = _hints(kind)  # type: ignore[arg-type]
        return kind(**{f.name: _made(hints[f.name], value[f.name]) for f in fields(kind) if f.name in value})  # type: ignore[operator]
    return value
