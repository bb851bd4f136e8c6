"""What decides the batches of a training, so that its checkpoint is continued by the same training alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

_LONGEST: Final = 60  # characters of a value in a sentence
_HASHED: Final = "sha256:"


@dataclass(frozen=True)
class Identity:
    """hash: of all parts. parts: by name, as JSON; of rows and other long ones only a hash."""

    hash: str
    parts: Mapping[str, Any]


def identity_of(**parts: object) -> Identity:
    """The identity of a run. A part made by `deciding` is one part for each setting."""
    named: dict[str, Any] = {}
    for name, part in parts.items():
        if name == "settings":
            named |= dict(part)  # type: ignore[call-overload]  # of `deciding`
        elif part is None or isinstance(part, str | int | float):
            named[name] = part
        else:
            named[name] = _HASHED + _short_hash(part)
    return Identity(_short_hash(tuple(parts.values())), json.loads(json.dumps(named, default=str)))


def deciding(config: BaseModel, free: Container[str]) -> list[tuple[str, object]]:
    """The settings that a resumed run must share. free: names of those that may change."""
    return [item for item in config.model_dump().items() if item[0] not in free]


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """The names whose values differ, with both values where they are short: “rows; seed: 1 there, 2 here”."""
    named = []
    for name in sorted({*there, *here}):
        both = there.get(name), here.get(name)
        if both[0] != both[1]:
            short = not any(str(value).startswith(_HASHED) or len(str(value)) > _LONGEST for value in both)
            named.append(f"{name}: {_said(both[0])} there, {_said(both[1])} here" if short else name)
    return "; ".join(named)


def _said(value: object) -> str:
    return "none" if value is None else json.dumps(value)


def _short_hash(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
