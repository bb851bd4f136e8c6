"""Settings as frozen pydantic models: every field has its help and limits.

    class IctConfig(Settings):
        keep_sentence: Share = setting(0.1, "how often the sentence stays in its block")

The same declaration validates a TOML file, a form and a REST request, and is printed by `--help`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError

from realm_core.errors import RealmError, quoted, unfit_character

T = TypeVar("T", bound="Settings")

MAX_K = 50  # blocks read for one question, in all interfaces; memory and time grow with it
FLAT = "settings"  # the field of a task whose settings have no prefix
_LARGEST = 2**63 - 1  # the largest integer of TOML, databases and torch
_QUOTED = 80  # characters of a wrong name shown in a message


class SettingError(RealmError):
    """One setting is wrong. name: its key. says: the error, as a continuation of the name."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__(f"{name if len(name) <= _QUOTED else quoted(name)} {says}")
        self.name, self.says = name, says


# ---- limits of values


@dataclass(frozen=True)
class Limit:
    """The limits of a value, in words and for a form; pydantic's own constraints enforce them.

    says:    as a continuation of "must be".
    low, high, choices: if these are the limits; low and high are inclusive.
    called:  labels of the choices, if they differ from the values.
    pattern: for values typed in a form or over REST; a command line may accept more, such as a path.
    """

    says: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict, hash=False)
    pattern: str = ""

    def may_be_typed(self, value: Any) -> bool:
        """Whether a value that satisfies pydantic's constraints also has the pattern."""
        return not self.pattern or re.fullmatch(self.pattern, value, re.ASCII) is not None

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The limits that pydantic's constraints do not have."""
        schema = handler(core)
        if "items" in schema:
            schema["items"] = {**schema["items"], "enum": list(self.choices)}
            schema |= {"minItems": 1, "uniqueItems": True}
        elif self.choices:
            schema["enum"] = list(self.choices)
        elif self.pattern:
            schema["pattern"] = f"^{self.pattern}$"
        return schema


ANY = Limit("anything")
Share = Annotated[float, Field(ge=0, lt=1), Limit("a share from 0 up to 1", low=0.0)]
WholeShare = Annotated[float, Field(ge=0, le=1), Limit("a share from 0 to 1", low=0.0)]
InnerShare = Annotated[float, Field(gt=0, lt=1), Limit("between 0 and 1")]
Positive = Annotated[float, Field(gt=0), Limit("a number above 0")]
NotNegative = Annotated[float, Field(ge=0), Limit("a number from 0 up", low=0)]
Count = Annotated[int, Field(ge=0), Limit("0 or more", low=0)]
# A seed times a million plus a step's number must fit into torch's 64 bits.
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Counts = dict[str, Annotated[int, Field(ge=0)]]
Name = Annotated[str, Limit("at most 60 letters, digits, spaces, dots and dashes", pattern=r"(?!\.)[\w .-]{0,60}")]
ShortText = Annotated[str, Limit("at most 500 characters", pattern=r"[\s\S]{0,500}")]
FILE = Limit("the name of a file in the data folder's sources/", pattern=r"(?!\.)[\w .-]{0,200}")
SourceFileName = Annotated[str, FILE]


# ---- declaration of fields


def setting(default: Any, help: str, *, unit: str = "", flag: str | None = None, **constraints: Any) -> Any:
    """A field that a person may set, also in a form and over REST. help: its meaning, without a full stop.

    unit: of a number, in the plural; help continues it: "blocks", "read for a question". flag: on the command line,
    if not the field's name; "": no option. constraints: pydantic's, such as ge=1.
    """
    schema_extra: dict[str, Any] = {"setting": True, "unit": unit, "flag": flag}
    return Field(default=default, description=help, json_schema_extra=schema_extra, **constraints)


def extra(info: FieldInfo) -> dict[str, Any]:
    """The metadata of a field that pydantic itself does not have."""
    return info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}


class Settings(BaseModel):
    """A group of settings. A field without `setting` is none of them, and cannot be set from outside."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _storable(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        if section_of(cls.model_fields[name]) is None:  # a section validates its own settings
            for key, one in value.items() if isinstance(value, dict) else ():
                if isinstance(key, str) and not _unstorable(key) and (says := _unstorable(one)):
                    raise PydanticCustomError("setting", "{says}", {"name": f"{name}.{key}", "says": says})
            if says := _unstorable(value):
                raise PydanticCustomError("setting", "{says}", {"name": name, "says": says})
        return value

    @model_validator(mode="after")
    def _together(self: T) -> T:
        try:
            self.check_together()
        except SettingError as error:
            raise PydanticCustomError("setting", "{says}", {"name": error.name, "says": error.says}) from None
        return self

    def check_together(self) -> None:
        """Raise SettingError if settings that are valid separately are not valid together."""


# ---- reading declarations


@dataclass(frozen=True)
class Setting:
    """The description of one setting. kind: int, float, str, bool, dict (whole numbers by name) or list (words).

    unit: of a number, "" if it has none; help continues it. optional: whether it may be None, which its help explains.
    """

    name: str
    kind: type
    default: Any
    unit: str
    help: str
    limit: Limit
    optional: bool

    @property
    def unit_to_show(self) -> str:
        """The unit, unless the name says it: steps, query_wordpieces."""
        return "" if self.unit in self.name.rpartition(".")[2].split("_") else self.unit


def describe(kind: type[Settings]) -> Iterator[Setting]:
    """The settings of `kind`, in order; a section's are named SECTION.NAME."""
    for name, info in kind.model_fields.items():
        if section := section_of(info):
            yield from (replace(one, name=_prefix(name) + one.name) for one in describe(section))
        elif _is_setting(info):
            yield _described(name, info)


@cache  # generating takes a hundred times as long as describing
def json_schemas(kind: type[Settings]) -> Mapping[str, Mapping[str, Any]]:
    """JSON Schema of each setting, as pydantic generates it, by the names of `describe`."""
    generated = kind.model_json_schema()["properties"]
    schemas: dict[str, Mapping[str, Any]] = {}
    for name, info in kind.model_fields.items():
        if section := section_of(info):
            schemas |= {_prefix(name) + key: schema for key, schema in json_schemas(section).items()}
        elif _is_setting(info):
            schemas[name] = generated[name]
    return schemas


def section_of(info: FieldInfo) -> type[Settings] | None:
    """The class of a field that is a section of settings."""
    kind = info.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Settings) else None


def nested(kind: type[Settings], named: Mapping[str, Any]) -> dict[str, Any]:
    """Values by the names of `describe`, in the model's nested form."""
    values: dict[str, Any] = {}
    for name, info in kind.model_fields.items():
        if section := section_of(info):
            prefix = _prefix(name)
            own = {key.removeprefix(prefix): value for key, value in named.items() if key.startswith(prefix)}
            values[name] = nested(section, own)
        elif name in named:
            values[name] = named[name]
    return values


def flat(settings: Settings) -> dict[str, Any]:
    """The settings by the names of `describe`."""
    values: dict[str, Any] = {}
    for name, info in type(settings).model_fields.items():
        if section_of(info):
            values |= {_prefix(name) + key: value for key, value in flat(getattr(settings, name)).items()}
        elif _is_setting(info):
            values[name] = getattr(settings, name)
    return values


def make(kind: type[T], values: Mapping[str, Any]) -> T:
    """Settings of `kind` from TOML or JSON values; omitted ones have their defaults.

    Raises SettingError for an unknown name, a value of the wrong type, and one outside its limits.
    """
    made, wrong = try_make(kind, values)
    if made is None:
        raise SettingError(*next(iter(wrong.items())))
    return made


def try_make(kind: type[T], values: Mapping[str, Any]) -> tuple[T | None, dict[str, str]]:
    """(settings, {}), or (None, all errors by the name of the setting)."""
    wrong, known = _unknown(kind, values)
    try:
        made = kind.model_validate(known)
        return (None, wrong) if wrong else (made, {})
    except ValidationError as error:
        for one in error.errors(include_url=False):
            name, says = _problem(kind, values, one)
            wrong.setdefault(name, says)
        return None, wrong


def _unknown(
    kind: type[Settings], values: Mapping[str, Any], prefix: str = ""
) -> tuple[dict[str, str], dict[str, Any]]:
    """(errors of unknown names, the other values)."""
    names = [name for name, info in kind.model_fields.items() if section_of(info) or info.description]
    wrong, known = {}, dict(values)
    for name, value in values.items():
        if name not in names:
            wrong[prefix + name] = f"is no setting; there are {', '.join(names)}."
            del known[name]
        elif (section := section_of(kind.model_fields[name])) and isinstance(value, Mapping):
            deeper, known[name] = _unknown(section, value, prefix + _prefix(name))
            wrong |= deeper
    return wrong, known


_NAMES = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    dict: "a table of whole numbers",
    list: "a list of words",
}


def _problem(kind: type[Settings], values: Any, error: Any) -> tuple[str, str]:
    """(name of the setting, error) of one of pydantic's errors."""
    prefix, owner, place = "", kind, list(error["loc"])
    value: Any = values
    while place and (info := owner.model_fields.get(str(place[0]))) and (section := section_of(info)):
        name = str(place.pop(0))
        prefix += _prefix(name)
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        owner = section
    if error["type"] == "setting":
        return prefix + error["ctx"]["name"], error["ctx"]["says"]
    if not place:
        return prefix.rstrip("."), f"must be a table of settings, not {quoted(value)}."
    name = str(place[0])
    if error["type"] == "missing":
        return prefix + name, "is needed."
    one = _described(name, owner.model_fields[name])
    value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    if one.kind is dict and len(place) > 1:
        says = f"must be a whole number that is not negative, not {quoted(error['input'])}."
        return f"{prefix}{name}.{place[1]}", says
    wrong_type = error["type"].endswith("_type") or (one.kind is str and not isinstance(value, str))
    if wrong_type and not (one.kind is list and error["type"] == "literal_error"):
        return prefix + name, f"must be {_NAMES.get(one.kind, 'a path')}, not {quoted(value)}."
    shown = float(value) if one.kind is float and isinstance(value, int) else value
    return prefix + name, f"must be {'finite' if one.limit is ANY else one.limit.says}, not {quoted(shown)}."


def _unstorable(value: Any) -> str | None:
    """An error for values that cannot be stored, at any depth: a hostile file nests deeper than the call stack."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str) and (found := unfit_character(one)):
            return f"must not contain the character {found!r}."
        if isinstance(one, int) and abs(one) > _LARGEST:
            return f"must lie within ±{_LARGEST}, unlike {quoted(one)}."
        if isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, list):
            waiting += one
    return None


def bare_type(info: FieldInfo) -> tuple[Any, bool, list[Any]]:
    """(the type without Annotated and None, whether it may be None, the annotations)."""
    type_, metadata, optional = info.annotation, list(info.metadata), False
    if type(None) in get_args(type_):
        (type_,), optional = [one for one in get_args(type_) if one is not type(None)], True
    while (marks := getattr(type_, "__metadata__", None)) is not None:
        metadata += [deeper for one in marks for deeper in (one.metadata if isinstance(one, FieldInfo) else [one])]
        type_ = get_args(type_)[0]
    return type_, optional, metadata


def _limit(type_: Any, metadata: Sequence[Any]) -> Limit:
    """The declared limit, or else the one in pydantic's constraints."""
    declared = next((one for one in metadata if isinstance(one, Limit)), None)
    if declared is not None:
        return declared
    if get_origin(type_) is Literal:
        return Limit(f"one of {', '.join(get_args(type_))}", choices=get_args(type_))
    edges = {edge: getattr(one, edge) for one in metadata for edge in ("ge", "le") if hasattr(one, edge)}
    low, high = edges.get("ge"), edges.get("le")
    if low is None:
        return ANY
    return Limit(f"at least {low}" if high is None else f"from {low} to {high}", low=low, high=high)


def _described(name: str, info: FieldInfo) -> Setting:
    type_, optional, metadata = bare_type(info)
    kind = str if get_origin(type_) is Literal else get_origin(type_) or type_
    default = info.get_default(call_default_factory=True)
    unit = str(extra(info).get("unit", ""))
    return Setting(name, kind, default, unit, str(info.description), _limit(type_, metadata), optional)


def _is_setting(info: FieldInfo) -> bool:
    return bool(extra(info).get("setting"))


def _prefix(section: str) -> str:
    return "" if section == FLAT else f"{section}."
