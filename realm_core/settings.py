"""Settings: frozen dataclasses whose every field says what it means and what it may be.

    @dataclass(frozen=True)
    class IctConfig(Settings):
        keep_sentence: float = setting(0.1, "how often the sentence stays in its block", SHARE)

The same description checks a TOML file, draws a form, and is what `--help` prints; there is no second place for it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from realm_core.errors import RealmError
from realm_core.files import read_text

T = TypeVar("T", bound="Settings")

# No database keeps zero characters in JSON, and half a surrogate pair is no character: UTF-8 cannot write it.
_UNFIT = re.compile("[\x00\ud800-\udfff]")
MAX_K = 50  # blocks read for one question, wherever it is asked; memory and time grow with it
_LARGEST = 2**63 - 1  # what TOML, databases and torch hold
_LONGEST_TOML = 1 << 15  # characters; tomllib takes time in proportion to the square of a dotted key's parts
_QUOTED = 80  # characters of a wrong value that are shown


class SettingError(RealmError):
    """One setting is wrong. name: its key. says: what is wrong with it, to be read behind the name."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__(f"{name if len(name) <= _QUOTED else quoted(name)} {says}")
        self.name, self.says = name, says


@dataclass(frozen=True)
class Limit:
    """What a value may be.

    says:    in words, to be read behind "must be".
    holds:   whether a value is allowed.
    low, high, choices: the same for a form, where these say it; low and high are allowed themselves.
    called:  what people call the choices, where it is not the word itself.
    """

    says: str
    holds: Callable[[Any], bool]
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)


def at_least(low: int) -> Limit:
    """Whole numbers from `low` on."""
    return Limit(f"at least {low}", lambda value: value >= low, low=low)


def between(low: int, high: int) -> Limit:
    """Whole numbers from `low` to `high`."""
    return Limit(f"from {low} to {high}", lambda value: low <= value <= high, low=low, high=high)


def one_of(*choices: str) -> Limit:
    """One of these words."""
    return Limit(f"one of {', '.join(choices)}", lambda value: value in choices, choices=choices)


def some_of(called: Mapping[str, str]) -> Limit:
    """A list of these words, each with what people call it."""
    return Limit(
        f"one or more of {', '.join(called)}, each once",
        lambda value: 0 < len(value) == len(set(value) & called.keys()),
        choices=tuple(called),
        called=called,
    )


ANY = Limit("anything", lambda _value: True)
SHARE = Limit("a share from 0 up to 1", lambda value: 0.0 <= value < 1.0, low=0.0)
WHOLE_SHARE = Limit("a share from 0 to 1", lambda value: 0.0 <= value <= 1.0, low=0.0)
INNER_SHARE = Limit("between 0 and 1", lambda value: 0.0 < value < 1.0)
POSITIVE = Limit("positive and finite", lambda value: 0 < value < math.inf)
NOT_NEGATIVE = Limit("finite and not negative", lambda value: 0 <= value < math.inf, low=0)
# Times a million, plus a step's number, a seed must fit into torch's 64 bits.
SEED = between(0, 2**32 - 1)


def setting(default: Any, help: str, limit: Limit = ANY) -> Any:
    """A field of `Settings`. help: what it means, without a capital and without a full stop."""
    metadata = {"help": help, "limit": limit}
    if isinstance(default, dict | list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Setting:
    """What is known of one setting. kind: int, float, str, bool, dict (of whole numbers by name) or list (of words).

    optional: whether it may be None, which its help explains.
    """

    name: str
    kind: type
    default: Any
    help: str
    limit: Limit
    optional: bool


@dataclass(frozen=True)
class Settings:
    """All settings of something; made only of values that are allowed. A field without `setting` is none of them."""

    def __post_init__(self) -> None:
        for one in describe(type(self)):
            _check_limit(one, getattr(self, one.name))
        self.check_together()

    def check_together(self) -> None:
        """Raise SettingError where settings that are allowed by themselves are not allowed together."""


def describe(kind: type[Settings]) -> Iterator[Setting]:
    """The settings of `kind`, in their order."""
    hints = get_type_hints(kind)
    for one in dataclasses.fields(kind):
        if "help" not in one.metadata:
            continue
        default = one.default if one.default_factory is dataclasses.MISSING else one.default_factory()
        wanted = hints[one.name]
        optional = type(None) in get_args(wanted)
        yield Setting(
            name=one.name,
            kind=get_args(wanted)[0] if optional else getattr(wanted, "__origin__", wanted),
            default=default,
            help=one.metadata["help"],
            limit=one.metadata["limit"],
            optional=optional,
        )


def explain(kind: type[Settings]) -> str:
    """A line for each setting: its default, what it means and what it may be."""
    lines = []
    for one in describe(kind):
        default = "" if one.default is None else f" = {in_toml(one.default)}"
        limit = "" if one.limit is ANY else f" ({one.limit.says})"
        lines.append(f"  {one.name}{default}: {one.help}{limit}")
    return "\n".join(lines)


def template(settings: Settings) -> str:
    """Every setting in TOML, behind a comment of what it means and may be. What has no value is a comment itself."""
    lines = []
    for one in describe(type(settings)):
        limit = "" if one.limit is ANY else f" ({one.limit.says})"
        value = getattr(settings, one.name)
        said = f"# {one.name} =" if value is None else f"{one.name} = {in_toml(value)}"
        lines += [f"# {one.help}{limit}", said]
    return "\n".join(lines)


def in_toml(value: Any) -> str:
    """A setting in TOML's notation."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{in_toml(key)} = {in_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(in_toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")  # JSON's notation, but for that one
    return repr(value)


def make(kind: type[T], values: dict[str, Any]) -> T:
    """Settings of `kind` from values as TOML or JSON has them; what is not among them has its default.

    Raises SettingError for an unknown name, a value of the wrong type, and one that is not allowed.
    """
    known = {one.name: one for one in describe(kind)}
    for name in values:
        if name not in known:
            raise SettingError(name, f"is no setting; there are {', '.join(known)}.")
    return kind(**{name: _typed(known[name], value) for name, value in values.items()})


def check_alone(kind: type[Settings], name: str, value: Any) -> None:
    """Raise SettingError for a value, as TOML or JSON has it, that a setting cannot have whatever the others are."""
    one = next(one for one in describe(kind) if one.name == name)
    _check_limit(one, _typed(one, value))


def read_settings(kind: type[T], path: Path | None, overrides: Sequence[str] = ()) -> T:
    """Settings of `kind` from a TOML file (None: defaults) and `key=value` overrides (values in TOML's notation).

    Raises RealmError for a file that cannot be read, and as `make` does.
    """
    values: dict[str, Any] = {} if path is None else read_toml(path)
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise RealmError(f"{quoted(override)} is not an override; write KEY=VALUE.")
        try:
            values[key.strip()] = parse_toml(f"value = {value}")["value"]
        except RealmError:
            raise RealmError(f"{quoted(override)}: {quoted(value)} is not a TOML value (texts need quotes).") from None
    return make(kind, values)


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file, or a RealmError that says what is wrong with it."""
    text = read_text(path)
    try:
        return parse_toml(text)
    except RealmError as error:
        raise RealmError(f"{path} {error}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """The values of a text in TOML, or a RealmError that begins with "is not valid TOML"."""
    if len(text) > _LONGEST_TOML:
        raise RealmError(f"is not valid TOML: it is longer than {_LONGEST_TOML:,} characters.")
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also of a number with thousands of digits, which Python does not read
        raise RealmError(f"is not valid TOML: {str(error).rstrip('.')}.") from None
    except RecursionError:
        raise RealmError("is not valid TOML: its lists or tables are nested too deeply.") from None


def quoted(value: Any) -> str:
    """A value as an error names it: as Python writes it, the middle of what is long left out."""
    try:
        text = repr(value)
    except RecursionError:
        return "what is nested that deeply"
    return text if len(text) <= _QUOTED else f"{text[: _QUOTED // 2]} … {text[-_QUOTED // 4 :]}"


def unfit_character(text: str) -> str | None:
    """The first character of a text that no page can show and no database keeps, if it has one."""
    found = _UNFIT.search(text)
    return found[0] if found else None


def printable(text: str) -> str:
    """The text with a replacement for characters that no page can show and no database keeps."""
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)


_NAMES = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    dict: "a table of whole numbers",
    list: "a list of words",
}


def _typed(one: Setting, value: Any) -> Any:
    if one.optional and value is None:
        return None
    if not isinstance(value, bool) and isinstance(value, int):
        _check_size(one.name, value)
        if one.kind is float:
            return float(value)
    if (
        not isinstance(value, one.kind)
        or (one.kind is int and isinstance(value, bool))
        or (isinstance(value, list) and not all(isinstance(word, str) for word in value))
    ):
        raise SettingError(one.name, f"must be {_NAMES[one.kind]}, not {quoted(value)}.")
    if isinstance(value, str):
        _check_text(one.name, value)
    return value


def _check_limit(one: Setting, value: Any) -> None:
    if one.kind is dict:
        _check_counts(one.name, value)
    elif not (one.optional and value is None) and not one.limit.holds(value):
        raise SettingError(one.name, f"must be {one.limit.says}, not {quoted(value)}.")


def _check_size(name: str, number: int) -> None:
    if abs(number) > _LARGEST:
        raise SettingError(name, f"must lie within ±{_LARGEST}, unlike {quoted(number)}.")


def _check_text(name: str, text: str) -> None:
    if found := unfit_character(text):
        raise SettingError(name, f"must not contain the character {found!r}.")


def _check_counts(name: str, counts: dict[str, Any]) -> None:
    for key, times in counts.items():
        _check_text(name, key)
        if not isinstance(times, int) or isinstance(times, bool) or times < 0:
            raise SettingError(f"{name}.{key}", f"must be a whole number that is not negative, not {quoted(times)}.")
        _check_size(f"{name}.{key}", times)
